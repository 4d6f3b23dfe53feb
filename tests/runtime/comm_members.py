"""Members of a group as threads of the test's process: real gloo over loopback."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import TypeVar

from muster.runtime.comm.group import GlooGroup
from muster.runtime.comm.store import StoreServer

HOST = "127.0.0.1"
T = TypeVar("T")
_names = count()


def together(size: int, act: Callable[[GlooGroup], T], deadline: float = 10.0) -> list[T]:
    """What each member of a fresh group answers, by rank; an error of any is raised."""
    store, name = StoreServer(HOST), f"test-{next(_names)}"

    def member(rank: int) -> T:
        group = GlooGroup((HOST, store.port), name, rank, size, HOST, deadline)
        try:
            return act(group)
        finally:
            group.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(member, range(size)))
