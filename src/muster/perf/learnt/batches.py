"""How a global batch is split over devices, and what a batch of another size is worth.

A user who lets the scheduler choose the batch gives its limits, as for Pollux (Qiao et al., OSDI'21). A
batch M on K devices is b samples at a time on each, with s further passes before a step:

    s = ceil(M / K / most_each) - 1, at least 1 on a single device where M > smallest
    b = ceil(M / K / (s + 1)), not above largest / (K (s + 1))

One device needs two passes to measure its gradient noise phi (in samples; McCandlish et al., 2018). A
step is worth, in steps of the smallest batch M0:

    gain(M) = (phi + M0) / (phi + M) x M / M0
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from muster.perf.learnt.held import Held
from muster.split import goodput

Array = NDArray[np.float64]

NEWEST = 0.5
"""Weight of the newest report in the mean of those at one batch."""
CHOICES = 20
"""Batches compared: over a range of 32 each is a fifth larger than the one before, as finely as a
step's time is known."""


@dataclass(frozen=True, slots=True)
class Split:
    """A split batch: devices, samples at a time on each, further passes before a step."""

    devices: int
    at_once: int
    further: int

    @property
    def batch(self) -> int:
        """The global batch actually used."""
        return self.devices * self.at_once * (self.further + 1)


@dataclass(frozen=True, slots=True)
class BatchRange:
    """Limits of a model's batch in samples: over all devices, and on each at a time."""

    smallest: int
    largest: int
    least_each: int
    most_each: int
    live: bool = False
    """Of a training that runs: it begins with the smallest, is tried at most at twice what it has had,
    and one device measures its noise in a single pass."""

    def split(self, batch: int, devices: int) -> Split:
        """Split a global batch over devices."""
        local = -(-batch // devices)
        further = -(-local // self.most_each) - 1
        if devices == 1 and batch > self.smallest and not self.live:
            further = max(1, further)
        at_once = min(-(-local // (further + 1)), self.largest // (devices * (further + 1)))
        return Split(devices, max(at_once, 1), further)

    def choices(self, count: int = CHOICES) -> tuple[int, ...]:
        """Return at most `count` batches from smallest to largest, evenly spaced in logarithm."""
        return _grid(self.smallest, self.largest, count)


class MeasuredBatches:
    """Steps of a free batch as measured, by device type, workers and batch.

    The step form (`perf/speed`) tells devices apart, and has seen one batch at first: how a step grows
    with the batch on the devices that a job has is read off its own steps.
    """

    def __init__(self) -> None:
        self._seconds: dict[tuple[str, int], dict[int, float]] = {}
        self.largest = self.count = 0
        """The largest batch so far; reports so far."""

    def add(self, held: Held, batch: int, step: float) -> None:
        """Add the s of a step."""
        known = self._seconds.setdefault((held.device_type, held.workers), {})
        known[batch] = step**NEWEST * known.get(batch, step) ** (1 - NEWEST)
        self.largest, self.count = max(self.largest, batch), self.count + 1

    def correct(
        self, seconds: Array, device_type: str, batches: Sequence[int], devices: Sequence[int]
    ) -> None:
        """Replace predicted s, (batches, devices), where steps were measured."""
        for column, workers in enumerate(devices):
            known = self._seconds.get((device_type, workers))
            if known:
                seconds[:, column] = [goodput.seconds_at(known, batch) for batch in batches]


@lru_cache(maxsize=256)
def _grid(smallest: int, largest: int, count: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(np.geomspace(smallest, largest, count).round().astype(int).tolist()))


def gain(noise: Array, smallest: int, batch: Array) -> Array:
    """Return the worth of one step in steps of the smallest batch (see above)."""
    worth: Array = goodput.gain(noise, smallest, batch)  # type: ignore[arg-type, assignment]
    return worth
