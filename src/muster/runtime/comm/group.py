"""A gloo process group without torch's global state, so that old and new formations coexist."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import cache
from typing import Any

import torch
from torch import Tensor, distributed

from muster.runtime.comm.store import StoreClient
from muster.runtime.errors import BrokenGroupError

Torch: Any = distributed
"""gloo's classes, which torch's annotations omit."""

_NOBODY = (1 << 31) - 1
"""A tag that nobody sends with."""


class GlooGroup:
    """Members of one formation; once closed, every call raises `BrokenGroupError`."""

    def __init__(self, store: StoreClient, rank: int, size: int, host: str) -> None:
        """Meet the others at a store; `host`: where they reach us."""
        self.rank, self.size, self.name, self.deadline = rank, size, store.name, store.deadline
        self._pg: Any = None
        self._under_way: set[Work] = set()
        self._change = threading.Lock()
        """An operation is begun on an open group, or not at all: `close` must break all of them."""
        self.store = store  # torch does not keep it alive
        try:
            options = Torch.ProcessGroupGloo._Options()
            options._timeout = timedelta(seconds=self.deadline)
            options._devices = [_device(host)]
            options._threads = 2
            self._pg = Torch.ProcessGroupGloo(self.store, rank, size, options)
        except (RuntimeError, ValueError) as problem:
            raise BrokenGroupError(f"group {self.name} could not be built: {problem}") from problem
        finally:
            store.close()

    def allreduce(self, tensor: Tensor) -> "Work":
        """Start summing a tensor over all members, in place."""
        return self._begin(lambda pg: pg.allreduce([tensor], Torch.ReduceOp.SUM))

    def send(self, tensor: Tensor, to: int, tag: int) -> "Work":
        """Start sending a tensor to a member."""
        return self._begin(lambda pg: pg.send([tensor], to, tag))

    def receive(self, tensor: Tensor, source: int, tag: int) -> "Work":
        """Start receiving a tensor from a member."""
        return self._begin(lambda pg: pg.recv([tensor], source, tag))

    def close(self) -> None:
        """Drop the group: its sockets close, and all who wait in it get an error."""
        with self._change:
            pg, self._pg = self._pg, None
        if pg is not None and self._under_way:
            _break(pg, self.rank, self.size)
        self._under_way.clear()

    def _begin(self, call: Callable[[Any], Any]) -> "Work":
        with self._change:
            if self._pg is None:
                raise BrokenGroupError(f"group {self.name} is closed")
            try:
                return Work(call(self._pg), self._under_way)
            except RuntimeError as problem:
                raise BrokenGroupError(str(problem)) from problem


class Work:
    """An operation in progress."""

    def __init__(self, work: Any, under_way: "set[Work]") -> None:
        self._work, self._under_way = work, under_way
        under_way.add(self)

    def wait(self, until: float | None = None) -> None:
        """Wait until it is done, a time (`time.monotonic`), or the group's deadline."""
        limit = () if until is None else (timedelta(seconds=max(1e-3, until - time.monotonic())),)
        try:
            self._work.wait(*limit)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        self._work = None
        self._under_way.discard(self)


def _break(pg: Any, rank: int, size: int) -> None:
    """Close all connections of a group, so that all who wait in it get an error.

    gloo's `abort` and `shutdown` do nothing, and pending operations keep a dropped group alive. But a
    receive that times out closes all connections of its group; on a broken connection it fails at once,
    and the next one is tried.
    """
    for peer in range(size):
        if peer != rank:
            try:
                pg.recv([torch.zeros(1)], peer, _NOBODY).wait(timedelta(milliseconds=1))
            except RuntimeError:
                continue


@cache
def _device(host: str) -> Any:
    """Return the one device of an address: each keeps a thread."""
    return Torch.ProcessGroupGloo.create_device(hostname=host)
