"""Members of a group as threads of the test's process: real gloo over loopback."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.store import StoreClient, Stores
from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.peers import PeerServer

HOST, TOKEN = "127.0.0.1", "secret"
T = TypeVar("T")
_names = count()


class StoreServer(PeerServer):
    """A peer that serves stores, and nothing else."""

    def __init__(self) -> None:
        super().__init__(HOST, TOKEN)
        self.stores = Stores(self)
        self.start()

    def client(self, name: str = "1-a", deadline: float = 10.0) -> StoreClient:
        return StoreClient(self.address, TOKEN, name, deadline)


def together(size: int, act: Callable[[GlooGroup], T], deadline: float = 10.0) -> list[T]:
    """What each member of a fresh group answers, by rank; an error of any is raised."""
    server, name, built = StoreServer(), f"1-{next(_names)}", threading.Barrier(size)

    def member(rank: int) -> T:
        try:
            group = GlooGroup(server.client(name, deadline), rank, size, HOST)
        except BrokenGroupError:
            built.abort()
            raise
        try:
            built.wait()  # who closes while another is still connecting breaks the other's group
            return act(group)
        finally:
            group.close()

    try:
        with ThreadPoolExecutor(size) as pool:
            return list(pool.map(member, range(size)))
    finally:
        server.close()
