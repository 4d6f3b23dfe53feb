"""The offers of many jobs as one table, and the deals that a price alone decides.

At a price p per device a job takes the count k with the largest v(k) - p k. If all jobs together then
take just the n devices that there are (or no more than n, at p = 0), no other deal is worth as much
(Everett 1963, "Generalized Lagrange multiplier method"): it would have to give at least one job another
count, which is worth less to it at that price by `gap` or more. Where that is more than sums of floats
are off, the exact deal has the same answer and need not be asked (a property test holds that). From one
cycle to the next prices hardly move: most deals are found at the price of the last one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.policy.market.deal import Offer, deal
from muster.policy.market.prices import Array

Whole = npt.NDArray[np.int64]

PROBES = 32
"""Most prices tried; three to eight are usual."""
APART = 1.05
"""Ratio of the first price tried to the last one, at most."""
ROUNDING = 1e-15
"""Relative error of a sum of floats, for each of them: four times what it can be."""


class _Taken(NamedTuple):
    """What jobs take at a price: the column of each, devices in all, and what that is worth."""

    picks: Whole
    asked: int
    worth: float


@dataclass(slots=True, eq=False)
class OfferTable:
    """What each count is worth to each job: a row for each job, column 0 being nothing, worth 0."""

    sizes: Sequence[tuple[int, ...]]
    """The counts of each job, from 0."""
    counts: Array
    """The same, filled up with zeros."""
    values: Array
    """-inf: the job has no such count, or must not have it now."""
    held: list[int]
    """The column of what each job has; 0: none."""
    price: float = 0.0
    """What a device was worth in the last deal: tried first. It does not change what comes out."""
    _rows: Whole = field(init=False)

    def __post_init__(self) -> None:
        self._rows = np.arange(len(self.sizes))

    def put_first(self, row: int, bonus: float) -> None:
        """Let a job be served before all others."""
        self.values[row, 1:] += bonus

    def cut(self, row: int, most: int) -> None:
        """Take counts above `most` devices from a job's offer, what it has among them."""
        self.values[row, self.counts[row] > most] = -inf
        if self.sizes[row][self.held[row]] > most:
            self.held[row] = 0

    def offer(self, row: int) -> Offer:
        """Return what a job is offered."""
        return _offer(self.sizes[row], self.values[row].tolist())

    def offers(self) -> list[Offer]:
        """Return what each job is offered."""
        return [_offer(*row) for row in zip(self.sizes, self.values.tolist(), strict=True)]

    def gains(self, picks: Sequence[int]) -> list[tuple[int, float]]:
        """Return the jobs whose share is worth more or less than what they have, and by how much."""
        more = self.values[self._rows, picks] - self.values[self._rows, self.held]
        rows = more.nonzero()[0]
        return [*zip(rows.tolist(), more[rows].tolist(), strict=True)]

    def deal(self, devices: int) -> list[int]:
        """Return the column that each job gets, as `deal` does."""
        picks = self._by_price(devices) if self.sizes else None
        if picks is not None:
            found: list[int] = picks.tolist()
            return found
        offers = self.offers()
        places = deal(offers, devices)
        given = (offer.counts[place] for offer, place in zip(offers, places, strict=True))
        return [sizes.index(count) for sizes, count in zip(self.sizes, given, strict=True)]

    def _by_price(self, devices: int) -> Whole | None:
        """Return what the jobs take at a price at which just these devices are taken, if that settles
        the deal."""
        low = self._taken(0.0)
        if low.asked <= devices:
            return self._settled(low, 0.0, devices)
        high, near = _Taken(np.zeros_like(low.picks), 0, 0.0), APART
        between = low.worth / low.asked
        price = self.price or between
        for _ in range(PROBES):
            found = self._taken(price)
            if found.asked == devices:
                return self._settled(found, self._middle(found.picks), devices)
            if price == between and found.asked in (low.asked, high.asked):
                break  # nothing between theirs is taken at any price
            self.price = price
            if found.asked > devices:
                low = found
            else:
                high = found
            between = (low.worth - high.worth) / (low.asked - high.asked)
            price = min(max(between, price / near), price * near)
            near *= near
        return None

    def _taken(self, price: float) -> _Taken:
        """Return what each job takes at a price."""
        picks = (self.values - price * self.counts).argmax(axis=1)
        asked = int(self.counts[self._rows, picks].sum())
        return _Taken(picks, asked, float(self.values[self._rows, picks].sum()))

    def _settled(self, found: _Taken, price: float, devices: int) -> Whole | None:
        """Return the same if that is the only best deal."""
        self.price = price
        return found.picks if self._settles(found.picks, price, devices) else None

    def _settles(self, picks: Whole, price: float, devices: int) -> bool:
        """Whether any other deal is worth less than this one, by more than sums are off."""
        reduced = self.values - price * self.counts
        best = reduced[self._rows, picks]
        reduced[self._rows, picks] = -inf
        gap = float((best - reduced.max(axis=1)).min())
        bound = float(np.abs(best).sum()) + price * devices
        return gap > ROUNDING * len(picks) * bound

    def _middle(self, picks: Whole) -> float:
        """Return the middle of the prices at which this is taken."""
        more = self.counts - self.counts[self._rows, picks][:, None]
        gains = self.values - self.values[self._rows, picks][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = gains / more
        low = float(slopes[more > 0.0].max(initial=0.0))
        high = float(slopes[more < 0.0].min(initial=inf))
        return 0.5 * (low + high) if high < inf else 2.0 * low


def _offer(sizes: tuple[int, ...], row: list[float]) -> Offer:
    """Return the counts that a job may have, with what they are worth."""
    values = row[: len(sizes)]
    if -inf not in values:
        return Offer(sizes, tuple(values))
    pairs = [(size, value) for size, value in zip(sizes, values, strict=True) if value > -inf]
    return Offer(*zip(*pairs, strict=True))
