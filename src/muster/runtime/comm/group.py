"""A gloo process group of one formation, made by hand: no global state, so old and new coexist."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, distributed

from muster.runtime.comm.store import StoreClient
from muster.runtime.errors import BrokenGroupError

Torch: Any = distributed
"""Gloo's own classes, which torch's annotations leave out."""

_NOBODY = (1 << 31) - 1
"""A tag that nobody sends with."""

_devices: dict[str, Any] = {}
"""One gloo device for each address of this process: a device keeps a thread, so it is used again."""


class GlooGroup:
    """Members of one formation; once it is over, every call raises `BrokenGroupError`."""

    def __init__(self, store: StoreClient, rank: int, size: int, host: str) -> None:
        """Meet the others at a store; `host`: where they reach us."""
        self.rank, self.size, self.name, self.deadline = rank, size, store.name, store.deadline
        self._pg: Any = None
        self._under_way: set[Work] = set()
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
        """Begin to sum a tensor over all members, in place."""
        return self._begin(lambda pg: pg.allreduce([tensor], Torch.ReduceOp.SUM))

    def broadcast(self, tensor: Tensor, root: int) -> "Work":
        """Begin to send a tensor from one member to all."""
        return self._begin(lambda pg: pg.broadcast(tensor, root))

    def send(self, tensor: Tensor, to: int, tag: int) -> "Work":
        """Begin to send a tensor to a member."""
        return self._begin(lambda pg: pg.send([tensor], to, tag))

    def receive(self, tensor: Tensor, source: int, tag: int) -> "Work":
        """Begin to receive a tensor from a member."""
        return self._begin(lambda pg: pg.recv([tensor], source, tag))

    def close(self) -> None:
        """Drop the group: its sockets close, and the error runs through all who still wait in it."""
        pg, self._pg = self._pg, None
        if pg is not None and self._under_way:
            _break(pg, self.rank, self.size)
        self._under_way.clear()

    def _begin(self, call: Callable[[Any], Any]) -> "Work":
        pg = self._pg
        if pg is None:
            raise BrokenGroupError(f"group {self.name} is closed")
        try:
            return Work(call(pg), self._under_way)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem


class Work:
    """Something begun on a group."""

    def __init__(self, work: Any, under_way: "set[Work]") -> None:
        self._work, self._under_way = work, under_way
        under_way.add(self)

    def wait(self, until: float | None = None) -> None:
        """Until it is done; at the latest until a time (`time.monotonic`), or the group's deadline."""
        limit = () if until is None else (timedelta(seconds=max(1e-3, until - time.monotonic())),)
        try:
            self._work.wait(*limit)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        self._work = None
        self._under_way.discard(self)


def _break(pg: Any, rank: int, size: int) -> None:
    """Close all connections of a group, so that whatever waits in it, here or there, gets an error.

    gloo's `abort` and `shutdown` do nothing, and a group that is dropped lives on in what is under way.
    But a receive that runs out of time closes every connection of its group; where a connection is
    broken already, the receive fails at once and the next one is tried.
    """
    for peer in range(size):
        if peer != rank:
            try:
                pg.recv([torch.zeros(1)], peer, _NOBODY).wait(timedelta(milliseconds=1))
            except RuntimeError:
                continue


def _device(host: str) -> Any:
    if host not in _devices:
        _devices[host] = Torch.ProcessGroupGloo.create_device(hostname=host)
    return _devices[host]
