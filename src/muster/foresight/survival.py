"""A distribution of lengths from jobs that have ended and jobs that still run.

Jobs that still run count, too: of those that started a while ago only the short ones have ended. One
that was not reached yet hands its weight on to the larger ones, in proportion (Efron 1967: the
Kaplan-Meier estimate). What is handed on beyond the largest, and the weight of one value more, is the
tail, Pareto's with exponent 1 as in `perf.learnt.lengths`:

    P(W > w | W > x) = x / w
"""

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

FARTHEST = 4.0
"""Most that the tail exceeds its beginning: one that reached further would fill every world with jobs
longer than any that was seen."""


@dataclass(frozen=True, slots=True)
class Seen:
    """How long something took, or has taken so far."""

    value: float
    over: bool = True
    """Whether it has ended; else it takes longer than this."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Survival:
    """Values in order, with the probability of not exceeding each; the rest is the tail."""

    values: tuple[float, ...]
    upto: tuple[float, ...]
    tail: float
    """Where the tail begins."""

    def at(self, part: float) -> float:
        """Return the value that this part (from 0 to 1) does not exceed."""
        place = bisect_right(self.upto, part)
        if place < len(self.values):
            return self.values[place]
        reached = self.upto[-1] if self.upto else 0.0
        rest = (1.0 - part) / max(1.0 - reached, 1e-9)
        return self.tail / max(rest, 1.0 / FARTHEST)


def survival(seen: Iterable[Seen], beyond: float = 0.0, least: float = 1.0) -> Survival:
    """Return the distribution of a value known to exceed `beyond`; `least`: where a tail begins at the
    earliest."""
    after = sorted((each for each in seen if each.value > beyond), key=lambda each: each.value)
    values, weights = [], []
    one = sum(each.weight for each in after) / len(after) if after else 1.0
    left = whole = one * (len(after) + 1)
    grown = 1.0 / whole
    """By how much each weight has grown by what smaller ones have handed on."""
    for each in after:
        left -= each.weight
        if each.over:
            values.append(each.value)
            weights.append(each.weight * grown)
        else:
            grown *= 1.0 + each.weight / left
    tail = max(beyond, least, after[-1].value if after else 0.0)
    return Survival(tuple(values), tuple(accumulate(weights)), tail)
