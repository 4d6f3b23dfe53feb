"""Times of forward and backward passes, also on an asynchronous device."""

import time
from typing import Any

import torch


class Stopwatch:
    """Three marks per step: begin, forward done, backward done."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._marks: list[Any] = []
        self._last = (0.0, 0.0)

    def begin(self) -> None:
        self._marks = []
        self.mark()

    def mark(self) -> None:
        """Mark the end of a pass, or the point in the device's queue."""
        if not self._cuda:
            self._marks.append(time.monotonic())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self._marks.append(event)

    def read(self) -> tuple[float, float]:
        """Return seconds of forward and backward pass; the last known if a GPU is not done yet."""
        if len(self._marks) == 3 and (not self._cuda or self._marks[2].query()):
            self._last = self._between(0, 1), self._between(1, 2)
        return self._last

    def _between(self, one: int, other: int) -> float:
        if self._cuda:
            return float(self._marks[one].elapsed_time(self._marks[other])) / 1e3
        return float(self._marks[other] - self._marks[one])
