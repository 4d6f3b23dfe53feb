"""Members that are threads of one process, for tests: sums in memory, deaths on demand."""

import threading
import time
from collections.abc import Callable, Sequence

from torch import Tensor

from muster.runtime.comm.base import Transfer
from muster.runtime.errors import BrokenGroupError


class Hub:
    """Where the members of one formation meet; one that is killed breaks it for all others."""

    def __init__(self, size: int, deadline: float = 10.0) -> None:
        self.size, self.deadline = size, deadline
        self._changed = threading.Condition()
        self._put: dict[tuple[int, int], dict[int, Tensor]] = {}
        self._broken = ""

    def kill(self, rank: int) -> None:
        """This member is gone: whoever waits, or comes later, gets an error."""
        with self._changed:
            self._broken = self._broken or f"member {rank} is gone"
            self._changed.notify_all()

    def put(self, step: int, bucket: int, rank: int, tensor: Tensor) -> None:
        """Hand in one member's part of a bucket."""
        with self._changed:
            self._check()
            self._put.setdefault((step, bucket), {})[rank] = tensor.clone()
            self._changed.notify_all()

    def summed(self, step: int, bucket: int, until: float) -> Tensor:
        """Wait for all parts of a bucket; added in the order of the ranks, so alike for all."""
        with self._changed:
            parts = self._put.setdefault((step, bucket), {})
            self._wait(lambda: len(parts) == self.size, until)
            if len(parts) < self.size:
                self._check()
                missing = sorted(set(range(self.size)) - parts.keys())
                raise BrokenGroupError(f"no word of members {missing} within {self.deadline:g} s")
        total = parts[0].clone()
        for rank in range(1, self.size):
            total += parts[rank]
        return total

    def forget(self, step: int) -> None:
        """Drop what was handed in before a step that all have reached."""
        with self._changed:
            for key in [key for key in self._put if key[0] < step]:
                del self._put[key]

    def _wait(self, done: Callable[[], bool], until: float) -> None:
        left = max(0.0, until - time.monotonic())
        self._changed.wait_for(lambda: bool(self._broken) or done(), left)

    def _check(self) -> None:
        if self._broken:
            raise BrokenGroupError(self._broken)


class InMemory:
    """One member's communicator at a hub."""

    def __init__(self, hub: Hub, rank: int, flats: Sequence[Tensor]) -> None:
        self._hub, self._rank, self._flats = hub, rank, flats
        self._step = 0
        self._buckets: list[int] = []

    def begin(self) -> None:
        """The next step."""
        self._step += 1
        self._buckets.clear()

    def put(self, bucket: int) -> None:
        """Hand this bucket in."""
        self._hub.put(self._step, bucket, self._rank, self._flats[bucket])
        self._buckets.append(bucket)

    def finish(self) -> list[Transfer]:
        """Wait until every bucket holds its sum."""
        until = time.monotonic() + self._hub.deadline
        transfers = []
        for bucket in self._buckets:
            began = time.monotonic()
            self._flats[bucket].copy_(self._hub.summed(self._step, bucket, until))
            seconds = time.monotonic() - began
            transfers.append(Transfer("ring", self._flats[bucket].nbytes, seconds))
        # All have put this step, so all are past the one before.
        self._hub.forget(self._step)
        return transfers

    def close(self) -> None:
        """Leave: the hub breaks for all others, as a group does when a member drops it."""
        self._hub.kill(self._rank)
