"""Work left of a job, predicted from the lengths of jobs that have ended.

Nothing that a user declares is used. Of n similar jobs that ended with works w_1 <= ... <= w_n, a job
that has done d ends like one of the m with w > d, each as likely as ending beyond all of them (the next
of m + 1 exchangeable values is the largest with probability 1 / (m + 1)). Beyond x = max(d, w_n) the
tail is Pareto's with exponent 1,

    P(W > w | W > x) = x / w,

so that without any evidence a job is expected to take as long again as it has taken (Lindy).

Lengths of unrelated jobs differ so much that the longer one has run, the longer it is expected to run:
equal jobs would take turns forever, each stopped as soon as it has run longer than another. For those,
d is rounded up to an octave: what is left shrinks while a job runs and grows only when it has run as
long again (Tiresias has discrete queues for the same reason). Octaves are of the work that any job of
the application has done, not of seconds, which differ by batch: so all its jobs are believed equally
long, and the one that is furthest ends first.
"""

from bisect import bisect_right, insort
from collections.abc import Sequence
from math import ceil, exp, log, log2
from typing import NamedTuple

KEPT = 256
"""Newest lengths kept: enough for every quantile used; old ones may be stale."""
FIRST = 1200.0
"""Expected s on one device of an unknown job: half of the jobs of Microsoft's Philly cluster took less
than 20 device-minutes (traces of Jeon et al., 2019)."""
ENOUGH = 3
"""Similar jobs that must have ended to be believed more than what the user declares."""
DECLARED = log(2.0)
"""Standard deviation of the logarithm of a declared duration: users are right to a factor of two."""
SIGMA = 0.16
"""Quantile one standard deviation below the middle of a normal distribution."""
LEAST = 1e-3
"""Least part of a job's work that is left while it has not ended."""


class Left(NamedTuple):
    """Work left: the middle, and the standard deviation of its logarithm."""

    middle: float
    spread: float


def agreed(one: Left, other: Left) -> Left:
    """Return what two independent estimates of the same work say together: the mean of their
    logarithms, each weighing 1 / spread²."""
    if min(one.middle, other.middle) <= 0 or min(one.spread, other.spread) <= 0:
        return one if one.spread <= other.spread else other
    weights = one.spread**-2, other.spread**-2
    middle = weights[0] * log(one.middle) + weights[1] * log(other.middle)
    return Left(exp(middle / sum(weights)), sum(weights) ** -0.5)


_Beyond = tuple[float, float, float, float]


class Lengths:
    """Lengths of the jobs of one kind that have ended."""

    def __init__(self) -> None:
        self._order: list[float] = []
        self._sorted: list[float] = []
        self.count = 0
        """Of all that were added, those no longer kept too."""
        self._beyond: dict[int, _Beyond] = {}
        """Quantiles of those from a place in the order on, since the last was added: every cycle asks
        for them of every job."""

    def __len__(self) -> int:
        return len(self._order)

    def add(self, work: float) -> None:
        """Add the length of a job that has ended."""
        self.count += 1
        self._beyond.clear()
        self._order.append(work)
        insort(self._sorted, work)
        if len(self._order) > KEPT:
            del self._sorted[bisect_right(self._sorted, self._order.pop(0)) - 1]

    @property
    def sorted(self) -> Sequence[float]:
        """All that are kept, the shortest first."""
        return self._sorted

    def coarse(self, done: float, exceeds: float, first: float, octave: float) -> Left:
        """Return what is left of an unrelated job, by octaves of what it and its like have done.

        `first`: the length expected without any evidence; `octave`: of which `exceeds` is the start,
        as the ratio of its end to that (see `octave_left`).
        """
        return self.left(done, exceeds * octave if exceeds > first / 2 else 0.0, first)

    def left(self, done: float, exceeds: float = 0.0, first: float = 0.0) -> Left:
        """Return what is left of a job that has done `done` and is known to exceed `exceeds`."""
        # Hot path, of every job in every cycle: `max` would take a third of the time.
        low, middle, high, tail = self._quantiles(done if done > exceeds else exceeds, first)
        least = LEAST * tail
        low, middle, high = low - done, middle - done, high - done
        low, high = (low if low > least else least), (high if high > least else least)
        return Left(middle if middle > least else least, log(high / low) / 2)

    def _quantiles(self, exceeds: float, first: float) -> _Beyond:
        """Return a deviation below the middle of those that exceed this, the middle, one above, and
        where the tail begins."""
        at = bisect_right(self._sorted, exceeds)
        if at == len(self._sorted):
            return _beyond(self._sorted, at, max(exceeds, first / 2))
        known = self._beyond.get(at)
        if known is None:
            known = self._beyond[at] = _beyond(self._sorted, at, self._sorted[-1])
        return known


def octave_left(work: float) -> float:
    """Return the ratio of the next power of two to this much work."""
    return 2.0 ** ceil(log2(work)) / work if work > 0 else 1.0


def _beyond(lengths: Sequence[float], at: int, tail: float) -> _Beyond:
    """Return the quantiles of the lengths from a place in their order on, and where the tail begins."""
    low, middle, high = [_quantile(lengths, at, tail, part) for part in (SIGMA, 0.5, 1 - SIGMA)]
    return low, middle, high, tail


def _quantile(lengths: Sequence[float], at: int, tail: float, part: float) -> float:
    """Return the length that this part of them do not exceed: one of theirs, or in the tail."""
    count = len(lengths) - at
    place = part * (count + 1)
    if place <= count:
        return lengths[at + ceil(place) - 1]
    return tail / (1 - (place - count))
