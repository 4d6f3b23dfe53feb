"""Whether a port of this machine is taken."""

import contextlib
from collections.abc import Iterable
from pathlib import Path

LISTEN = "0A"
"""The state of a listening socket in /proc/net/tcp."""
SOCKETS = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def first_taken(ports: Iterable[int]) -> int:
    """Return the first of these ports at which a process of this machine listens; 0: none."""
    wanted = tuple(ports)
    if not wanted:
        return 0
    taken = _listening()
    return next((port for port in wanted if port in taken), 0)


def _listening() -> set[int]:
    found: set[int] = set()
    for path in SOCKETS:
        with contextlib.suppress(OSError):
            for line in path.read_text(encoding="ascii").splitlines()[1:]:
                fields = line.split()
                if fields[3] == LISTEN:
                    found.add(int(fields[1].rpartition(":")[2], 16))
    return found
