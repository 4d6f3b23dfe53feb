"""How a global batch is split over devices, and what a batch of another size is worth.

A user who lets the scheduler choose the batch gives its limits, as for Pollux (Qiao et al., OSDI'21). A
batch M on K devices is b samples at a time on each, with s further passes before a step:

    s = ceil(M / K / most_each) - 1, at least 1 on a single device where M > smallest
    b = ceil(M / K / (s + 1)), not above largest / (K (s + 1))

One device needs two passes to measure its gradient noise phi (in samples; McCandlish et al., 2018). A
step is worth, in steps of the smallest batch M0:

    gain(M) = (phi + M0) / (phi + M) x M / M0
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


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

    def split(self, batch: int, devices: int) -> Split:
        """Split a global batch over devices."""
        local = -(-batch // devices)
        further = -(-local // self.most_each) - 1
        if devices == 1 and batch > self.smallest:
            further = max(1, further)
        at_once = min(-(-local // (further + 1)), self.largest // (devices * (further + 1)))
        return Split(devices, max(at_once, 1), further)

    def choices(self, count: int) -> tuple[int, ...]:
        """Return at most `count` batches from smallest to largest, evenly spaced in logarithm."""
        return _grid(self.smallest, self.largest, count)


@lru_cache(maxsize=256)
def _grid(smallest: int, largest: int, count: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(np.geomspace(smallest, largest, count).round().astype(int).tolist()))


def gain(noise: Array, smallest: int, batch: Array) -> Array:
    """Return the worth of one step in steps of the smallest batch (see above)."""
    return (noise + smallest) / (noise + batch) * batch / smallest
