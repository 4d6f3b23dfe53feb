"""Choices that can be part of a best deal: all others need not be tried.

At a price per device p, job i gains at most r_i = max over its counts k of v_i(k) - p k, and no deal of
n devices is worth more than U = p n + the sum of all r_i (Lagrange's bound). A deal in which job i has
k is then worth at most U - (r_i - v_i(k) + p k). Where that is less than L, what some deal is worth, k
cannot be part of a best one. Near the price at which just n devices are asked for, U and L are so close
that most jobs have one choice left, and the rest is quickly solved exactly.
"""

from collections.abc import Sequence
from math import sqrt

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Kept = npt.NDArray[np.bool_]

HALVINGS = 14
"""Of the price's range, by ratio: the bounds are then within a thousandth of the price."""
RANGE = 1e-9
"""The lowest price tried, as a part of the highest: jobs that are served first, or that others may not
stop, are worth thousands of times as much as a further device is to the rest."""
ROUNDING = 1e-9
"""Relative error of the bounds: what is that close is kept."""


def narrow(counts: Sequence[Sequence[int]], values: Sequence[Sequence[float]], devices: int) -> Kept:
    """Return which choices of each job may be part of a best deal, as a mask (jobs, choices).

    Counts rise from 0, which is worth 0; none is above `devices`.
    """
    table = _Table(counts, values, devices)
    picks, price = table.settle()
    worth = table.total(table.fill(picks))
    reduced = table.values - price * table.counts
    best = reduced.max(axis=1)
    bound = float(best.sum()) + price * devices
    slack = max(0.0, bound - worth) + ROUNDING * abs(bound)
    return np.asarray(reduced >= best[:, None] - slack, dtype=np.bool_)


class _Table:
    """All choices as rectangles; those that a job does not have are worth -inf."""

    def __init__(
        self, counts: Sequence[Sequence[int]], values: Sequence[Sequence[float]], devices: int
    ) -> None:
        width = max(map(len, counts))
        self.counts = np.array([[*row, *[0] * (width - len(row))] for row in counts])
        lacks = [-np.inf] * width
        self.values = np.array([[*row, *lacks[len(row) :]] for row in values])
        self.devices = devices
        self._rows = np.arange(len(counts))
        self._first = width * self._rows
        """Where each row begins."""

    def settle(self) -> tuple[Whole, float]:
        """Return the lowest price found at which no more devices are asked for than there are, and
        what is asked for then."""
        picks = self.values.argmax(axis=1)
        if self._asked(picks) <= self.devices:
            return picks, 0.0
        slopes = self.values[:, 1:] / np.maximum(self.counts[:, 1:], 1)
        high, picks = float(slopes.max()) * (1 + ROUNDING), np.zeros_like(picks)
        low = RANGE * high
        for _ in range(HALVINGS):
            price = sqrt(low * high)
            tried = (self.values - price * self.counts).argmax(axis=1)
            asked = self._asked(tried)
            if asked > self.devices:
                low = price
                continue
            high, picks = price, tried
            if asked == self.devices:
                break
        return picks, high

    def fill(self, picks: Whole) -> Whole:
        """Give what is left over to whom it brings most, while it brings something."""
        left = self.devices - self._asked(picks)
        while left:
            more = self.counts - self.counts[self._rows, picks][:, None]
            gains = self.values - self.values[self._rows, picks][:, None]
            gains[more > left] = 0.0
            row, place = divmod(int(gains.argmax()), gains.shape[1])
            if gains[row, place] <= 0.0:
                break
            left -= int(more[row, place])
            picks = picks.copy()
            picks[row] = place
        return picks

    def total(self, picks: Whole) -> float:
        """Return what a deal is worth."""
        return float(self.values[self._rows, picks].sum())

    def _asked(self, picks: Whole) -> int:
        return int(np.add.reduce(self.counts.take(self._first + picks)))
