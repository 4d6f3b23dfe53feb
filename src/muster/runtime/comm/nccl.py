"""NCCL's ring for workers with their own GPUs; the ballot uses the gloo group beside it."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor, distributed

from muster.runtime.comm.base import Transfer
from muster.runtime.comm.group import GlooGroup, Work
from muster.runtime.comm.ring import Ring
from muster.runtime.errors import BrokenGroupError


class Nccl(Ring):
    """All-reduces on the device; the last flat, the ballot, may be in host memory."""

    def __init__(self, group: GlooGroup, flats: Sequence[Tensor]) -> None:
        """Meet the members of the gloo group at its store; each uses its own device."""
        super().__init__(group, flats)
        if not distributed.is_nccl_available():
            raise BrokenGroupError("this torch has no NCCL: install a CUDA build, or use another sync")
        if not all(flat.is_cuda for flat in flats[:-1]):
            raise BrokenGroupError("NCCL sums on GPUs only, and these gradients are in host memory")
        self._ballot: Work | None = None
        torch: Any = distributed
        options = torch.ProcessGroupNCCL.Options()
        options._timeout = timedelta(seconds=group.deadline)
        store = torch.PrefixStore("nccl", group.store)
        self._sum = torch.ReduceOp.SUM
        self._pg: Any = torch.ProcessGroupNCCL(store, group.rank, group.size, options)

    def put(self, bucket: int) -> None:
        """Start summing a bucket, behind what the current stream has queued."""
        flat, pg = self._flats[bucket], self._pg
        if bucket == len(self._flats) - 1:
            self._ballot = self._group.allreduce(flat)
            return
        if pg is None:
            raise BrokenGroupError(f"group {self._group.name} is closed")
        try:
            work = Work(pg.allreduce([flat], self._sum), set())
        except RuntimeError as problem:
            raise BrokenGroupError(str(problem)) from problem
        self._works.append((bucket, time.monotonic(), work))

    def finish(self) -> list[Transfer]:
        """Wait until every bucket holds its sum."""
        if self._ballot is not None:
            # First: a lost member shows here, without a hanging GPU.
            self._ballot.wait(time.monotonic() + self._group.deadline)
        return super().finish()

    def close(self) -> None:
        pg, self._pg = self._pg, None
        super().close()
        if pg is not None:
            pg.abort()
