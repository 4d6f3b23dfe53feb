"""Takes connections, and keeps their number bounded.

At the limit the oldest connection on which nobody was let in yet makes room: half-sent requests keep no
proper client out.
"""

import asyncio
import errno
import os
import socket
from collections import Counter
from collections.abc import Callable, Iterator

import structlog

from muster.api.door.peer import Peer

_FULL = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_AGAIN = 0.1
"""s until the next try when not even the spare descriptor helps."""

log = structlog.get_logger("muster.api")


class Connections:
    """The open connections of each peer, oldest first."""

    def __init__(self, total: int, per_peer: int) -> None:
        self._total, self._per_peer = total, per_peer
        self._peers: dict[str, dict[Peer, None]] = {}
        self._count: Counter[bool] = Counter()
        """By whether they come over a Unix socket: other machines must not use up its share."""

    def enter(self, peer: Peer) -> bool:
        """Add a connection; False if there is no room and none can make it."""
        same = self._peers.get(peer.key, {})
        if len(same) >= self._per_peer and not _end_one(same):
            return False
        local = peer.uid is not None
        if self._count[local] >= self._total and not _end_one(self._strangers(local)):
            return False
        self._peers.setdefault(peer.key, {})[peer] = None
        self._count[local] += 1
        return True

    def leave(self, peer: Peer) -> None:
        """Remove a connection. Idempotent."""
        same = self._peers.get(peer.key, {})
        if peer in same:
            del same[peer]
            self._count[peer.uid is not None] -= 1
            if not same:
                del self._peers[peer.key]

    def _strangers(self, local: bool) -> Iterator[Peer]:
        """Yield connections of the same kind, beginning with the peer that has most."""
        for same in sorted(self._peers.values(), key=len, reverse=True):
            yield from (peer for peer in same if (peer.uid is not None) is local)


def _end_one(peers: "dict[Peer, None] | Iterator[Peer]") -> bool:
    oldest = next((peer for peer in peers if not peer.trusted), None)
    if oldest is not None:
        oldest.trusted = True  # it is going: the next one must not choose it again
        oldest.hang_up()
    return oldest is not None


async def accept(listening: socket.socket, take: Callable[[socket.socket], None]) -> None:
    """Take connections until cancelled, even when descriptors run out."""
    loop = asyncio.get_running_loop()
    listening.setblocking(False)
    spare = os.open(os.devnull, os.O_RDONLY)
    try:
        while True:
            try:
                taken, _ = await loop.sock_accept(listening)
            except OSError as error:
                if error.errno in _FULL:
                    log.error("out of descriptors: a connection is dropped", error=str(error))
                    os.close(spare)
                    spare = -1
                    _drop(listening)
                    spare = os.open(os.devnull, os.O_RDONLY)
                await asyncio.sleep(_AGAIN)
                continue
            take(taken)
            await asyncio.sleep(0)  # `sock_accept` does not yield while there are more
    finally:
        if spare >= 0:
            os.close(spare)


def _drop(listening: socket.socket) -> None:
    """Accept a connection and close it: left in the queue it would be reported for ever."""
    try:
        listening.accept()[0].close()
    except OSError:
        return
