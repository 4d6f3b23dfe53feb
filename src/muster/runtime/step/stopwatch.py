"""Times of forward and backward passes, also on an asynchronous device."""

import time
from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class StepTiming:
    """Times of the current step, in s."""

    begun: float = 0.0
    forward: float = 0.0
    backward: float = 0.0
    handed: float = 0.0
    summed: float = 0.0


class Stopwatch:
    """Laps of three marks each: begin, forward done, backward done."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._laps: list[list[Any]] = []
        self._last = (0.0, 0.0)

    def begin(self) -> None:
        """Begin a step."""
        self._laps = []
        self.lap()

    def lap(self) -> None:
        """Begin another forward pass of the step; what was since the last one does not count."""
        self._laps.append([self._now()])

    def mark(self) -> None:
        """Mark the end of a pass, or the point in the device's queue."""
        if len(self._laps[-1]) == 3:
            self._laps.append(self._laps[-1][2:])  # the next micro-batch began at once
        self._laps[-1].append(self._now())

    def read(self) -> tuple[float, float]:
        """Return seconds of forward and backward passes; the last known if a GPU is not done yet."""
        laps = [lap for lap in self._laps if len(lap) == 3]
        if laps and (not self._cuda or laps[-1][2].query()):
            forward = sum(self._between(lap[0], lap[1]) for lap in laps)
            self._last = forward, sum(self._between(lap[1], lap[2]) for lap in laps)
        return self._last

    def _now(self) -> Any:
        if not self._cuda:
            return time.monotonic()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _between(self, one: Any, other: Any) -> float:
        return float(one.elapsed_time(other)) / 1e3 if self._cuda else float(other - one)
