"""The one-time token with which an agent joins: where the daemon is, how to know it, and a secret.

As text it is `mja1.` and base64 of JSON, one word to copy to another machine. The fingerprint lets the
agent check the daemon before it sends the secret; the daemon keeps only a digest of the secret.
"""

import base64
import binascii
import json
import re
from dataclasses import dataclass
from typing import Any, Self

PREFIX = "mja1."
"""Of this form of the text; another form gets another number."""
LONGEST = 4096
"""Characters of the text at most: some fifty addresses."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


class BadJoinTokenError(ValueError):
    """A text that is no join token."""


@dataclass(frozen=True, slots=True)
class JoinToken:
    """What an agent needs to join a daemon."""

    addresses: tuple[str, ...]
    """Where agents reach the daemon, "host:port" each, the best first."""
    fingerprint: str
    """SHA-256 of the authority's certificate (DER), in hex."""
    secret: str
    node: str = ""
    """The only node that may join with it; empty: any new one."""
    expires: float = 0.0
    """Unix time by the daemon's clock, which alone decides; 0: unknown."""

    def __str__(self) -> str:
        """Return the text to give to `muster agent --join`."""
        record = {
            "a": self.addresses,
            "f": self.fingerprint,
            "s": self.secret,
            "n": self.node,
            "e": int(self.expires),
        }
        data = json.dumps(record, separators=(",", ":")).encode()
        return PREFIX + base64.urlsafe_b64encode(data).decode().rstrip("=")

    def __repr__(self) -> str:
        # A token must not end up in a log.
        return f"JoinToken({', '.join(self.addresses)})"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text; `BadJoinTokenError` in one line if it is none."""
        text = text.strip()
        if not text.startswith(PREFIX):
            raise BadJoinTokenError(f"not a join token: it must begin with {PREFIX}")
        body = text.removeprefix(PREFIX)
        try:
            if len(text) > LONGEST:
                raise ValueError("too long")
            record = json.loads(base64.b64decode(body + "=" * (-len(body) % 4), b"-_", validate=True))
            return cls(*_fields(record))
        except (ValueError, TypeError, KeyError, RecursionError, binascii.Error) as problem:
            raise BadJoinTokenError("the join token is damaged: copy it as a whole") from problem


def split_address(address: str) -> tuple[str, int]:
    """Split "host:port" ("[::1]:80" for IPv6); `ValueError` if it is none."""
    host, _, port = address.rpartition(":")
    bare = host.removeprefix("[").removesuffix("]")
    digits = port.isascii() and port.isdigit() and len(port) <= 5
    if not bare or not digits or not 0 < int(port) < 65536 or (":" in bare and bare == host):
        raise ValueError(f"{address!r} is not host:port (an IPv6 host goes in brackets, [::1]:80)")
    return bare, int(port)


def joined_address(host: str, port: int) -> str:
    """Return "host:port", with brackets around an IPv6 host."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _fields(record: dict[str, Any]) -> tuple[tuple[str, ...], str, str, str, float]:
    addresses, fingerprint, secret, node, expires = (record[key] for key in "afsne")
    if not all(isinstance(each, str) for each in (*addresses, fingerprint, secret, node)):
        raise TypeError("text is needed")
    if not addresses or not secret or not _FINGERPRINT.fullmatch(fingerprint):
        raise ValueError("a part is missing")
    for each in addresses:
        split_address(each)
    if type(expires) is not int or not 0 <= expires < 2**53:
        raise ValueError("not a time")
    return tuple(addresses), fingerprint, secret, node, float(expires)
