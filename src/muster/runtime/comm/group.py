"""A gloo process group of one generation, made by hand: no global state, so old and new exist at once."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any


from torch import Tensor, distributed

from muster.runtime.errors import BrokenGroupError

Torch: Any = distributed
"""Gloo's own classes, which torch's annotations leave out."""

_devices: dict[str, Any] = {}
"""One gloo device for each address of this process: a device keeps a thread, so it is used again."""


def serve_store(host: str) -> Any:
    """A store at which the members of one generation find each other; lives as long as the object."""
    return Torch.TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=60))


class Group:
    """Members of one generation that reach each other; every call raises `BrokenGroupError` when it is over."""

    def __init__(
        self, address: tuple[str, int], name: str, rank: int, size: int, host: str, deadline: float
    ) -> None:
        """Meet the others at a store under this name; `host`: the address that others reach us at."""
        self.rank, self.size, self.name = rank, size, name
        self._pg: Any = None
        try:
            store = Torch.TCPStore(*address, is_master=False, timeout=timedelta(seconds=deadline))
            options = Torch.ProcessGroupGloo._Options()
            options._timeout = timedelta(seconds=deadline)
            options._devices = [_device(host)]
            options._threads = 2
            self._pg = Torch.ProcessGroupGloo(Torch.PrefixStore(name, store), rank, size, options)
        except (RuntimeError, ValueError) as problem:
            raise BrokenGroupError(f"group {name} could not be built: {problem}") from problem

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
        self._pg = None

    def _begin(self, call: Callable[[Any], Any]) -> "Work":
        pg = self._pg
        if pg is None:
            raise BrokenGroupError(f"group {self.name} is closed")
        try:
            return Work(call(pg), self)
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem


class Work:
    """Something begun on a group."""

    def __init__(self, work: Any, group: Group) -> None:
        self._work, self._group = work, group

    def wait(self) -> None:
        """Until it is done; at the latest when the group's deadline has passed."""
        try:
            self._work.wait()
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        finally:
            self._work = None


def _device(host: str) -> Any:
    if host not in _devices:
        _devices[host] = Torch.ProcessGroupGloo.create_device(hostname=host)
    return _devices[host]


