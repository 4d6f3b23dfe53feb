"""gloo's ring: one all-reduce per bucket."""

import time
from collections.abc import Sequence

from torch import Tensor

from muster.runtime.comm.group import GlooGroup, Work


class Ring:
    """All-reduces, started by `put`, awaited at the end."""

    def __init__(self, group: GlooGroup, flats: Sequence[Tensor]) -> None:
        self._group, self._flats = group, flats
        self._works: list[Work] = []

    def begin(self) -> None:
        self._works.clear()

    def put(self, bucket: int) -> None:
        flat = self._flats[bucket]
        if flat.numel() > 0:
            self._works.append(self._group.allreduce(flat))

    def finish(self) -> None:
        """Wait until every bucket holds its sum."""
        until = time.monotonic() + self._group.deadline
        for work in self._works:
            work.wait(until)
        self._works.clear()

    def close(self) -> None:
        self._group.close()
