"""NCCL's ring for workers that have a GPU each; the ballot goes by the gloo group beside it."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor, distributed

from muster.runtime.comm.base import Transfer
from muster.runtime.comm.group import GlooGroup, Work
from muster.runtime.errors import BrokenGroupError


def available() -> bool:
    """Whether this build of torch has NCCL."""
    return distributed.is_nccl_available()


class Nccl:
    """All-reduces on the device; the last flat, the ballot, may be in host memory."""

    def __init__(self, group: GlooGroup, flats: Sequence[Tensor]) -> None:
        """Meet the members of the gloo group at its store once more; each names a device of its own."""
        if not available():
            raise BrokenGroupError("this torch has no NCCL: install a CUDA build, or use another sync")
        if not all(flat.is_cuda for flat in flats[:-1]):
            raise BrokenGroupError("NCCL sums on GPUs only, and these gradients are in host memory")
        self._group, self._flats = group, flats
        self._works: list[tuple[int, float, Any]] = []
        self._ballot: Work | None = None
        torch: Any = distributed
        options = torch.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=group.deadline)
        store = torch.PrefixStore("nccl", group.store)
        self._sum = torch.ReduceOp.SUM
        self._pg: Any = torch.ProcessGroupNCCL(store, group.rank, group.size, options)

    def begin(self) -> None:
        """Nothing to post."""
        self._works.clear()

    def put(self, bucket: int) -> None:
        """Begin to sum this bucket, after what is queued on the current stream."""
        flat, pg = self._flats[bucket], self._pg
        if bucket == len(self._flats) - 1:
            self._ballot = self._group.allreduce(flat)
            return
        if pg is None:
            raise BrokenGroupError(f"group {self._group.name} is closed")
        try:
            self._works.append((bucket, time.monotonic(), pg.allreduce([flat], self._sum)))
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem

    def finish(self) -> list[Transfer]:
        """Wait until every bucket holds its sum: with a time limit this blocks the thread, too."""
        until = time.monotonic() + self._group.deadline
        transfers, before = [], 0.0
        if self._ballot is not None:
            # First: a member that is gone shows here, without a GPU that hangs.
            self._ballot.wait(until)
        for bucket, put, work in self._works:
            _wait(work, until)
            now = time.monotonic()
            transfers.append(Transfer("ring", self._flats[bucket].nbytes, now - max(put, before)))
            before = now
        return transfers

    def close(self) -> None:
        """Give both groups up."""
        pg, self._pg = self._pg, None
        self._group.close()
        if pg is not None:
            pg.abort()


def _wait(work: Any, until: float) -> None:
    try:
        work.wait(timedelta(seconds=max(1e-3, until - time.monotonic())))
    except RuntimeError as problem:
        raise BrokenGroupError(str(problem)) from problem
