"""What one step is worth along a job's progress, learnt from all jobs of an application.

Gradients grow noisier during training, so the same batch is worth more late than early. Progress is
divided into stretches, each an eighth of all before it; each keeps the mean logarithm of its reports.
One without reports is like the last before it that has some.
"""

from functools import cache
from math import exp, log, log1p

import numpy as np
from numpy.typing import NDArray

STRETCH = 1.125
"""Ratio of the ends of a stretch: a job's second half is six of them."""
_LOG = log(STRETCH)


class Way:
    """Positive numbers by progress."""

    def __init__(self) -> None:
        self._sums: list[float] = []
        self._counts: list[int] = []
        self._means: list[float] = []
        """Of the reports of each stretch; 0: there are none."""
        self.version = 0
        """Counts the stretches with reports."""

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, done: float, value: float) -> None:
        """Add the report of a job that has done this much work."""
        at = stretch(done)
        while len(self._sums) <= at:
            self._sums.append(0.0)
            self._counts.append(0)
            self._means.append(0.0)
        self.version += not self._counts[at]
        self._sums[at] += log(value)
        self._counts[at] += 1
        self._means[at] = exp(self._sums[at] / self._counts[at])

    def values(self) -> list[float]:
        """Return a value for each stretch, up to the last with reports."""
        known = next(mean for mean, count in zip(self._means, self._counts, strict=True) if count)
        found: list[float] = []
        for mean, count in zip(self._means, self._counts, strict=True):
            known = mean if count else known
            found.append(known)
        return found


def stretch(done: float) -> int:
    """Return the stretch of a job that has done this much work."""
    return int(log1p(done) / _LOG) if done > 0.0 else 0


@cache
def start(at: int) -> float:
    """Return the work at which a stretch begins."""
    return float(STRETCH**at - 1)


@cache
def lengths(count: int) -> NDArray[np.float64]:
    """Return the work of each of the first stretches."""
    return np.diff([start(i) for i in range(count + 1)])
