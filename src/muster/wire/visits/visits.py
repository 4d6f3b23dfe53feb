"""Visits: connections into a job, for a command beside a task, its terminal, its ports and its files.

The client opens one over the API; the daemon checks who may, and joins it to a process beside the task,
on whichever node; neither looks at the frames (`frames.py`). The client speaks first. Notes:

  of the client   begin {term, rows, columns}: a command gets a terminal if there is a term;
                  size {rows, columns}; signal {number}; open {stream, port}
  of the node     refused {why, status}; file {size} or folder {}; exit {code} or {signal};
                  failed {stream, why}; told {words}; detached {why}
"""

import contextlib
import fcntl
import socket
import struct
import termios
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from muster.wire.bounds import AtMost
from muster.wire.visits.frames import Frames

UPGRADE = "muster-visit"
"""The protocol that a client asks to change to."""

INPUT, OUTPUT, ERRORS = 0, 1, 2
"""Streams of a command: its standard ones. Of a copy: what is stored, what is fetched."""
FIRST_FORWARDED = 16
"""Streams of forwarded connections begin here."""


class VisitKind(StrEnum):
    """What a visit is for."""

    EXEC = "exec"
    ATTACH = "attach"
    FORWARD = "forward"
    FETCH = "fetch"
    STORE = "store"
    LIST = "list"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Visit:
    """What a client asks for."""

    kind: Annotated[str, AtMost(255)]
    """One of `VisitKind`."""
    command: Annotated[tuple[str, ...], AtMost(131_072)] = ()
    """Of `exec`; empty: a shell."""
    path: Annotated[str, AtMost(4096)] = ""
    """Of those for files: in the job's folder."""
    port: int | None = None
    """Of `forward`: what is asked for, for the audit log; connections name theirs."""


_SIZE = struct.Struct("HHHH")
"""Rows, columns, and two that nobody uses."""


def set_size(terminal: int, rows: Any, columns: Any) -> None:
    """Give a terminal the size that a visitor names; its programs hear of it (SIGWINCH)."""
    with contextlib.suppress(OSError, TypeError, ValueError):
        found = (max(1, min(int(each), 65535)) for each in (rows, columns))
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, _SIZE.pack(*found, 0, 0))


def refusal(why: str, **more: Any) -> bytes:
    """Return what tells a visitor why there is no visit."""
    frames = Frames()
    frames.note(what="refused", why=why[:2000], **more)
    return bytes(frames.outgoing)


def refuse(connection: socket.socket, why: str, **more: Any) -> None:
    """Tell a visitor why there is no visit."""
    with contextlib.suppress(OSError):
        connection.settimeout(2.0)
        connection.sendall(refusal(why, **more))
