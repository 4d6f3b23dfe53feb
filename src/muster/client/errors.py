"""Errors of the client."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from muster.client.connecting.http import httpx


@dataclass(frozen=True, slots=True)
class FieldFault:
    """One fault of a request, and its field."""

    field: str
    problem: str


@dataclass(frozen=True, slots=True)
class _Problem:
    """The fields of a problem+json that are read."""

    status: int = 0
    title: str = ""
    detail: str = ""
    hint: str | None = None
    errors: tuple[FieldFault, ...] = ()


class ClientError(Exception):
    """A request that failed; `str()` says why and what to do.

    `status`: that of HTTP, or 0 if no daemon answered.
    """

    def __init__(
        self,
        status: int,
        title: str,
        detail: str,
        hint: str | None = None,
        errors: Sequence[FieldFault] = (),
    ) -> None:
        self.status, self.title, self.detail, self.hint = status, title, detail, hint
        self.errors = tuple(errors)
        faults = "".join(f"\n  {each.field}: {each.problem}" for each in self.errors)
        super().__init__(f"{detail}{faults}" + (f" ({hint})" if hint and not faults else ""))


def raise_for(answer: "httpx.Response") -> None:
    """Raise ClientError unless the request succeeded. The body must have been read."""
    if not answer.is_success:
        raise problem_of(answer.content, answer.status_code)


def problem_of(data: bytes | str, status: int = 0) -> ClientError:
    """Make an error from a problem+json, or from the status alone."""
    try:
        found = msgspec.json.decode(data, type=_Problem)
    except msgspec.DecodeError:  # perhaps from a proxy
        return ClientError(status, "", f"the answer was HTTP {status} without a reason")
    return ClientError(found.status or status, found.title, found.detail, found.hint, found.errors)


_PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "PACKET_LENGTH_TOO_LONG")
"""OpenSSL's names, by version, for an answer that is not TLS."""
_UNTRUSTED = (
    "set MUSTER_CA to the sha256:... that muster up prints there, or to a copy of its certificate"
)


def no_daemon(url: str, error: Exception) -> ClientError:
    """Make the error for a request that got no answer, with what helps against its cause."""
    said = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in said:
        detail = f"the certificate at {url} is not trusted: {_cause(said)}"
        return ClientError(0, "Not Trusted", detail, _UNTRUSTED)
    if any(each in said for each in _PLAIN):
        detail = f"{url} speaks no TLS"
        return ClientError(0, "No TLS", detail, "check the port, or write http:// in MUSTER_URL")
    detail = f"no daemon answers at {url}: {error}"
    return ClientError(0, "No Daemon", detail, "start one with muster up, or set MUSTER_URL")


def _cause(said: str) -> str:
    """OpenSSL's reason, without its names: `self-signed certificate`."""
    return said.rpartition("certificate verify failed: ")[2].partition(" (_ssl.c")[0]
