"""Intervals corrected by those before them, so that 80 % hold 80 %.

Of each kind of forecast three numbers are kept: by how many halves of its own interval, in the
logarithm of the time from when it was made, its median is moved, and by which factors these halves are
stretched. Each outcome moves them a little: one beyond an end stretches that half, one before it
shrinks it, so that in the long run a tenth lies beyond either end, whatever the errors look like
(adaptive conformal inference, Gibbs and Candes 2021). Unlike quantiles of past errors, one far outlier
moves an end no further than any other outcome, and a change of the workload is followed.

The median is moved only while most of the latest outcomes lie on one side of it as it was played: what
is played learns as well, and moving its median for what it was wrong by before would do harm.

An outcome counts as soon as it is decided: once the time of an end has passed, the job is beyond it,
whenever it may end. If only jobs that have ended counted, short ones alone would be heard at first.
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import exp, log, sqrt

from muster.foresight.quantiles import HIGH, LOW, TimeInterval

ENOUGH = 20
"""Outcomes that must have been decided for a kind to be corrected by its own."""
FIRST, LEAST, HALVED = 0.25, 0.04, 10.0
"""How much an outcome moves a number at first, and later; outcomes after which the first is down by a
factor of 1.4."""
NARROWEST, WIDEST = log(0.1), log(20.0)
"""Limits of the logarithm of a stretch."""
THINNEST = log(1.05)
"""Least half of an interval."""
NEAREST = 1.0
"""s: what is nearer counts as this far away."""
LATEST = 0.1
"""Weight of an outcome in the side on which the latest lie."""
LEANS = 3.0 * sqrt(LATEST / (2.0 - LATEST))
"""Three standard deviations of that side if both are as likely."""
PLAYED = "played"
"""The median as it was played, beside the quantiles as they are corrected."""
FADES = 0.8
"""What is left of a move, with each outcome, once both sides are as likely again."""


@dataclass(slots=True)
class PastForecast:
    """A forecast as it was played, when it was made, and what came of it."""

    made: float
    said: TimeInterval
    kinds: tuple[Hashable, ...]
    came: float | None = None
    decided: set[tuple[Hashable, str]] = field(default_factory=set)
    """Kinds and quantiles of which it is known whether the outcome lies beyond them."""


@dataclass(slots=True)
class _Correction:
    """What is learnt of one kind."""

    moved: float = 0.0
    """Added to the median, in halves of the interval: what vague forecasts were wrong by says nothing
    of exact ones."""
    below: float = 0.0
    above: float = 0.0
    """Logarithms of the factors by which the halves are stretched."""
    outcomes: int = 0
    side: float = 0.0
    """Where the latest outcomes lie: -1, all before the median as it was played, to 1, all beyond."""

    def applied(self, said: TimeInterval, made: float) -> TimeInterval:
        """Return the interval as it is to be told."""
        middle, below, above = _halves(said, made)
        if abs(self.side) > LEANS:
            middle += self.moved * (above if self.moved > 0.0 else below)
        low, high = middle - below * exp(self.below), middle + above * exp(self.above)
        return TimeInterval(*(made + exp(each) for each in (middle, low, high)))

    def learn(self, quantile: str, *, beyond: bool) -> None:
        """Take in whether an outcome lies beyond a quantile."""
        step = max(LEAST, FIRST / sqrt(1.0 + self.outcomes / HALVED))
        if quantile == "low":
            self.outcomes += 1
            self.below = _kept(self.below + step * ((not beyond) - LOW))
        elif quantile == "high":
            self.above = _kept(self.above + step * (beyond - (1.0 - HIGH)))
        elif quantile == PLAYED:
            self.side += LATEST * ((1.0 if beyond else -1.0) - self.side)
        elif abs(self.side) > LEANS:
            self.moved += step * (0.5 * exp(self.above) if beyond else -0.5 * exp(self.below))
        else:
            self.moved *= FADES


@dataclass(slots=True)
class Calibration:
    """Forecasts of one question (when does it start, when does it end), by kind."""

    _corrections: dict[Hashable, _Correction] = field(default_factory=dict)
    _open: dict[int, list[PastForecast]] = field(default_factory=dict)

    def note(self, job: int, told: PastForecast) -> None:
        """Keep a forecast as it was before correction."""
        if told.came is None:
            self._open.setdefault(job, []).append(told)
        else:
            self._decide(told, told.came)

    def came(self, job: int, at: float) -> None:
        """Note what came of a job's forecasts."""
        for each in self._open.pop(job, ()):
            each.came = at
            self._decide(each, at)

    def drop(self, job: int) -> None:
        """Forget the open forecasts of a job that somebody stopped: nothing comes of them."""
        self._open.pop(job, None)

    def advance(self, now: float) -> None:
        """Take in which ends of open forecasts have passed."""
        for forecasts in self._open.values():
            for each in forecasts:
                self._decide(each, now)

    def corrected(self, said: TimeInterval, now: float, kinds: Iterable[Hashable]) -> TimeInterval:
        """Return the interval, corrected by the first of these kinds of which enough is known."""
        for kind in kinds:
            found = self._corrections.get(kind)
            if found is not None and found.outcomes >= ENOUGH:
                return found.applied(said, now)
        return said

    def _decide(self, told: PastForecast, at: float) -> None:
        """Learn from the quantiles that lie before a moment; from all, if that is the outcome."""
        for kind in told.kinds:
            known = self._corrections.setdefault(kind, _Correction())
            ends = known.applied(told.said, told.made)
            bounds = {"low": ends.low, "middle": ends.middle, "high": ends.high}
            for quantile, bound in {PLAYED: told.said.middle, **bounds}.items():
                place = kind, quantile
                beyond = at > bound
                if place not in told.decided and (beyond or told.came is not None):
                    told.decided.add(place)
                    known.learn(quantile, beyond=beyond)


def _halves(said: TimeInterval, made: float) -> tuple[float, float, float]:
    """Return the logarithm of the middle, and the halves of the interval below and above it."""
    middle, low, high = (_log(each - made) for each in (said.middle, said.low, said.high))
    return middle, max(middle - low, THINNEST), max(high - middle, THINNEST)


def _kept(stretch: float) -> float:
    return min(max(stretch, NARROWEST), WIDEST)


def _log(seconds: float) -> float:
    return log(max(seconds, NEAREST))
