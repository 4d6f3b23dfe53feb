"""Ports for engines of tests: below those that the system gives to outgoing connections."""

import contextlib
import random
import socket

RANGE = range(2_000, 8_200)
"""Systems give no port below 32,768 to an outgoing connection; workers of Ray are above 10,000, tasks
of Muster above 20,000."""


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listened at just now, in order."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return sorted(found)
    raise OSError(f"no {count} ports are free")


def free_port() -> int:
    """Return a port that nobody listened at just now."""
    return free_ports(1)[0]
