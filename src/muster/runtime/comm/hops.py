"""What the kernel says of this process's connections to the other members (TCP_INFO, tcp(7)).

A collective's own time includes waiting for slow peers, and says nothing of single hops. The kernel
counts for each connection the bytes that were acknowledged and the time in which data was under way
(busy, less the time in which the receiver took nothing): both ends were ready, whatever the algorithm
does. What several connections at once share is for those to find who hear of all of them.
"""

import ctypes
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from muster.runtime.comm.choose import host_of
from muster.wire.tasks.messages import Member

EVERY = 1.0
"""Seconds between two reports."""
LARGE = 256 * 1024
"""Bytes to a peer in a step from which their time says something of bandwidth."""
ROUND_TRIPS = 20
"""A step's transfer must take this many round trips for the same."""
LEAST = 0.04
"""Seconds: the kernel counts in ticks of 1 to 10 ms."""

_BYTES_ACKED, _LEAST_ROUND_TRIP, _BUSY = (
    struct.Struct("=120xQ"),
    struct.Struct("=148xI"),
    struct.Struct("=168xQQ"),
)
"""Places in the kernel's `struct tcp_info`, which only grows at its end; microseconds."""
_SIZE = 192


@dataclass(frozen=True, slots=True)
class HopReport:
    """Bytes to a peer's host in a step, the seconds they were under way, and the latency one way.

    0 bytes: only small messages went there, which tell the latency alone.
    """

    peer: str
    """A task on that host."""
    bytes: int
    seconds: float
    latency: float


class _Count(NamedTuple):
    """The kernel's count for one connection so far."""

    bytes: int
    seconds: float
    round_trip: float


class HostConnections:
    """The connections to the hosts of other members, read after each step."""

    def __init__(self, hosts: Mapping[str, str]) -> None:
        """`hosts`: a task by address of each other host."""
        self._peers = _connections(hosts)
        self._before = self._read()
        self._since, self._steps = time.monotonic(), 0

    def step(self) -> list[HopReport]:
        """Count a step; return what has passed since the last report, if one is due."""
        self._steps += 1
        now = time.monotonic()
        if not self._peers or now < self._since + EVERY:
            return []
        after = self._read()
        passed = {fd: _passed(self._before.get(fd), count) for fd, count in after.items()}
        found = _reports(self._by_host(passed), self._steps)
        if any(each.bytes for each in found) or now > self._since + 10 * EVERY:
            self._before, self._since, self._steps = after, now, 0
            return found
        return []

    def _read(self) -> dict[int, _Count]:
        counts = ((fd, _read_count(fd)) for fd in self._peers)
        return {fd: count for fd, count in counts if count is not None}

    def _by_host(self, passed: Mapping[int, _Count]) -> dict[str, _Count]:
        """Add up the connections to each host; they are busy at the same time."""
        found: dict[str, _Count] = {}
        for fd, count in passed.items():
            known = found.get(self._peers[fd], _Count(0, 0.0, count.round_trip))
            found[self._peers[fd]] = _Count(
                known.bytes + count.bytes,
                max(known.seconds, count.seconds),
                min(known.round_trip, count.round_trip),
            )
        return found


def hops_of(members: Sequence[Member], rank: int) -> HostConnections:
    """Return the connections of a member to the others."""
    here = host_of(members[rank])
    hosts = {host_of(member): member.task for member in reversed(members) if host_of(member) != here}
    return HostConnections(hosts)


def _passed(before: _Count | None, after: _Count) -> _Count:
    if before is None or after.bytes < before.bytes:  # another connection under the same number
        return _Count(0, 0.0, after.round_trip)
    seconds = max(0.0, after.seconds - before.seconds)
    return _Count(after.bytes - before.bytes, seconds, after.round_trip)


def _reports(hosts: Mapping[str, _Count], steps: int) -> list[HopReport]:
    """Return a report for each host."""
    found = []
    for peer, count in hosts.items():
        latency = count.round_trip / 2
        large = count.bytes >= LARGE * steps and count.seconds >= LEAST
        if large and count.seconds >= ROUND_TRIPS * count.round_trip * steps:
            found.append(HopReport(peer, count.bytes // steps, count.seconds / steps, latency))
        elif latency > 0:
            found.append(HopReport(peer, 0, 0.0, latency))
    return found


def _connections(hosts: Mapping[str, str]) -> dict[int, str]:
    """Return a task on the far host by file descriptor of each connection there."""
    found: dict[int, str] = {}
    if sys.platform != "linux" or not hosts:
        return found
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            peer = _far_end(entry)
            if peer in hosts:
                found[int(entry.name)] = hosts[peer]
    return found


def _far_end(entry: Path) -> str:
    """Return the address at the other end of a TCP connection; empty if it is something else."""
    if not str(entry.readlink()).startswith("socket:"):
        return ""
    with socket.socket(fileno=os.dup(int(entry.name))) as connection:  # a copy: the other is gloo's
        ip = connection.family in (socket.AF_INET, socket.AF_INET6)
        if not ip or connection.type != socket.SOCK_STREAM:
            return ""
        return str(connection.getpeername()[0]).removeprefix("::ffff:")


def _read_count(fd: int) -> _Count | None:
    """Read the kernel's count without a copy of the socket; None if it tells too little."""
    info = ctypes.create_string_buffer(_SIZE)
    size = ctypes.c_uint32(_SIZE)
    libc = ctypes.CDLL(None)
    done = libc.getsockopt(fd, socket.IPPROTO_TCP, socket.TCP_INFO, info, ctypes.byref(size))
    if done != 0 or size.value < _SIZE:
        return None
    (sent,), (trip,) = _BYTES_ACKED.unpack_from(info), _LEAST_ROUND_TRIP.unpack_from(info)
    busy, unread = _BUSY.unpack_from(info)
    return _Count(sent, max(0, busy - unread) / 1e6, trip / 1e6)
