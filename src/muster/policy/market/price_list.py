"""Prices of a pool's jobs, kept from one deal to the next.

A job's price follows from the devices and from what the jobs before it bring to the market: their
ladders and weights, not their work left (`prices`). So up to the first job that is new, gone, faster or
elsewhere in the order, prices are those of the last deal, and only from there on are they worked out
again. Most that happens concerns the jobs that end first, which enter last.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from muster.policy.market.prices import Array, Market


class Rising(Protocol):
    """Speeds on one device type."""

    @property
    def ladder(self) -> Array:
        """Work per s that each further device adds."""
        ...


Entrant = tuple[Mapping[str, Rising], float]
"""A job's curves by device type, the same object while they are the same, and its weight."""

MARKS = 32
"""Most markets kept on the way: pricing goes on from the last one before a difference."""
APART = 4
"""Fewest jobs between two of them."""


@dataclass(frozen=True, slots=True, eq=False)
class PriceList:
    """Jobs in the order in which they entered, each with price and type."""

    devices: Mapping[str, int]
    entered: Sequence[Entrant]
    found: Sequence[tuple[float, str]]
    marks: Mapping[int, Market]
    """The market before the n-th job entered."""


def price_all(
    entrants: Sequence[Entrant], devices: Mapping[str, int], last: PriceList | None
) -> PriceList:
    """Return the prices of all jobs, the last to end first."""
    same = _alike(last.entered, entrants) if last is not None and last.devices == devices else 0
    if last is None or not same:
        last = PriceList(devices, (), (), {0: Market(devices)})
    begin = max(at for at in last.marks if at <= same)
    market = last.marks[begin].copy()
    found = list(last.found[:begin])
    marks = {at: mark for at, mark in last.marks.items() if at <= begin}
    marked, apart = begin, max(APART, len(entrants) // MARKS)
    for at in range(begin, len(entrants)):
        if at - marked >= apart:
            marks[at], marked = market.copy(), at
        curves, weight = entrants[at]
        found.append(market.enter({each: curve.ladder for each, curve in curves.items()}, weight))
    return PriceList(dict(devices), tuple(entrants), found, marks)


def _alike(one: Iterable[Entrant], other: Iterable[Entrant]) -> int:
    """Count the jobs from the first on that are the same."""
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda each: _is_same(*each), pairs))


def _is_same(one: Entrant, other: Entrant) -> bool:
    return one[0] is other[0] and one[1] == other[1]
