"""Step functions of time: integrals and means."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class StepFunction:
    """A step function: `value[i]` from `at[i]` to `at[i + 1]`; 0 before, the last value after."""

    at: Floats
    """s, ascending."""
    value: Floats

    def integral(self, moments: Floats) -> Floats:
        """Return value x s from the beginning to each moment."""
        if not len(self.at):
            return np.zeros_like(moments)
        area = np.concatenate(([0.0], np.cumsum(self.value[:-1] * np.diff(self.at))))
        last = np.clip(np.searchsorted(self.at, moments, side="right") - 1, 0, None)
        return area[last] + self.value[last] * np.clip(moments - self.at[last], 0.0, None)

    def mean(self, begin: Floats, end: Floats) -> Floats:
        """Return the mean from each begin to its end; the value there if they are equal."""
        if not len(self.at):
            return np.zeros_like(begin)
        length = end - begin
        area = self.integral(end) - self.integral(begin)
        return np.where(length > 0, area / np.where(length > 0, length, 1.0), self.now(begin))

    def now(self, moments: Floats) -> Floats:
        """Return the value at each moment, 0 before the first."""
        if not len(self.at):
            return np.zeros_like(moments)
        last = np.searchsorted(self.at, moments, side="right") - 1
        return np.where(last < 0, 0.0, self.value[np.clip(last, 0, None)])


def counted(begin: Floats, end: Floats, weight: Floats) -> StepFunction:
    """Return the total weight over time of things that last from begin to end."""
    moments = np.concatenate((begin, end))
    change = np.concatenate((weight, -weight))
    at, place = np.unique(moments, return_inverse=True)
    return StepFunction(at, np.cumsum(np.bincount(place, weights=change, minlength=len(at))))


def ratio(above: StepFunction, below: StepFunction) -> StepFunction:
    """Divide one by the other, which must not be 0 from its first step on."""
    at = np.union1d(above.at, below.at)
    # Before its first step the divisor is unknown; its first value is used.
    known = np.clip(np.searchsorted(below.at, at, side="right") - 1, 0, None)
    return StepFunction(at, above.now(at) / below.value[known])
