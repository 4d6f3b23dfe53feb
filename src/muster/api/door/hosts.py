"""Which web pages may talk to the daemon: none but its own.

A page of another site can make a browser send requests to a daemon on loopback. It gives itself away by
the header Origin, or, if its name was made to point here (DNS rebinding), by the header Host.
"""

import ipaddress
import socket
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from muster.api.door.peer import Peer
from muster.api.problem import ProblemError


class Hosts:
    """Names of the daemon, beside those of loopback and the address at which a peer has reached it."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

    def check(self, peer: Peer, headers: Mapping[bytes, bytes]) -> None:
        """Reject a request that was sent to another name, or by another site's page."""
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if peer.uid is None and not self._known(host, peer):
            shown = host or "none"
            raise ProblemError(
                403, f"the header Host is {shown!r}, not this daemon; allow it with --allow-host"
            )
        origin = headers.get(b"origin")
        if origin is not None and urlsplit(origin.decode("latin-1").lower()).netloc != (host or None):
            raise ProblemError(403, f"pages of {origin.decode('latin-1')!r} may not use this daemon")

    def _known(self, host: str, peer: Peer) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name.rstrip(".") in self._names or _address(name) in (_address(peer.local), _LOOPBACK)


_LOOPBACK = "loopback"


def _address(text: str) -> str | None:
    """Return an address in its one spelling, `_LOOPBACK` for all of this machine's, None for a name."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(found, "ipv4_mapped", None) or found
    return _LOOPBACK if mapped.is_loopback else str(mapped)


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to an address or name."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return False
    return all(_address(str(each[4][0])) == _LOOPBACK for each in found)
