"""gloo's ring: one all-reduce per bucket."""

import time
from collections.abc import Sequence

from torch import Tensor

from muster.runtime.comm.base import Transfer
from muster.runtime.comm.group import GlooGroup, Work


class Ring:
    """All-reduces, started by `put`, awaited at the end."""

    def __init__(self, group: GlooGroup, flats: Sequence[Tensor]) -> None:
        self._group, self._flats = group, flats
        self._works: list[tuple[int, float, Work]] = []

    def begin(self) -> None:
        self._works.clear()

    def put(self, bucket: int) -> None:
        flat = self._flats[bucket]
        if flat.numel() > 0:
            self._works.append((bucket, time.monotonic(), self._group.allreduce(flat)))

    def finish(self) -> list[Transfer]:
        """Wait until every bucket holds its sum; its time starts when those before are done."""
        until = time.monotonic() + self._group.deadline
        size, seconds, before = 0, 0.0, 0.0
        for bucket, put, work in self._works:
            work.wait(until)
            now = time.monotonic()
            size, seconds = size + self._flats[bucket].nbytes, seconds + now - max(put, before)
            before = now
        self._works.clear()
        return [Transfer("ring", size, seconds)] if size else []

    def close(self) -> None:
        self._group.close()
