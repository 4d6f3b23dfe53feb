"""Who is at the other end of a connection, as the kernel says."""

import os
import pwd
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from muster.api.problem import ProblemError
from muster.daemon.service.caller import Caller

PEER = "muster.peer"
"""Where the scope of a request has its peer; requests in process have none."""

ROOT = 0
_CREDENTIALS = struct.Struct("3i")
"""pid, uid, gid."""


def _nothing() -> None:
    """End nothing: the connection is not set up yet."""


@dataclass(slots=True, eq=False)
class Peer:
    """The other end of one connection."""

    key: str
    """Its address, or its Unix user on a Unix socket: what limits count by."""
    local: str = ""
    """The daemon's own address as this peer reached it; empty on a Unix socket."""
    uid: int | None = None
    """Its Unix user, on a Unix socket."""
    trusted: bool = False
    """Whether a request on this connection was let in."""
    hang_up: Callable[[], object] = _nothing


def peer_of(accepted: socket.socket) -> Peer:
    """Return the peer of an accepted connection."""
    if accepted.family == socket.AF_UNIX:
        raw = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        uid = _CREDENTIALS.unpack(raw)[1]
        return Peer(f"uid {uid}", uid=uid)
    return Peer(str(accepted.getpeername()[0]), str(accepted.getsockname()[0]))


def caller_of_uid(uid: int, owner: Caller) -> Caller:
    """Return the caller that a Unix user is; `owner`: the one whom the daemon runs as."""
    if uid == os.geteuid():
        return owner
    try:
        return Caller(pwd.getpwuid(uid).pw_name, admin=uid == ROOT)
    except KeyError:
        raise ProblemError(403, f"the Unix user {uid} has no name on the daemon's machine") from None
