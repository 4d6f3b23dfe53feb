"""Intervals corrected by those before them, so that 80 % hold 80 %.

A forecast that has come true says by how much it was off, in units of its own interval and on the
logarithm of the time from when it was made:

    z = log(outcome / middle) / log(high / middle)     above the middle, with `low` below it

Of all z of its kind the quantiles 0.1, 0.5 and 0.9 should be -1, 0 and 1; what they are instead
corrects the next one (split conformal prediction, Vovk et al. 2005, on normalised residuals). One that
is still open counts as beyond the time that has passed, or short jobs alone would be heard at first.
"""

from collections import deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from math import exp, log
from statistics import NormalDist

from muster.foresight.quantiles import HIGH, LOW, MIDDLE, SOON, TimeInterval
from muster.foresight.survival import Seen, survival

KEPT = 400
"""Newest forecasts kept of a kind: others were made by another history."""
ENOUGH = 30
"""Forecasts that must have come true for a kind to be corrected by its own."""
PRIOR = 20
"""Forecasts as if they had come true as they should: few do not turn an interval around."""
NARROWEST = log(1.05)
"""Least half of an interval that z is counted in."""
_SHIFT = 100.0
"""Added to z, since lengths of survival are positive; more than any z."""


@dataclass(slots=True)
class PastForecast:
    """A forecast, when it was made, and what came of it."""

    made: float
    said: TimeInterval
    kinds: tuple[Hashable, ...]
    came: float | None = None

    def z(self, now: float) -> Seen:
        """Return its residual; of one that is open, what it exceeds by now."""
        at = now if self.came is None else self.came
        middle, low, high = (
            _log(each - self.made) for each in (self.said.middle, self.said.low, self.said.high)
        )
        off = _log(at - self.made) - middle
        width = max(high - middle, NARROWEST) if off > 0 else max(middle - low, NARROWEST)
        return Seen(min(max(off / width, -50.0), 50.0) + _SHIFT, self.came is not None)


@dataclass(slots=True)
class Calibration:
    """Forecasts of one question (when does it start, when does it end), by kind."""

    _told: dict[Hashable, deque[PastForecast]] = field(default_factory=dict)
    _open: dict[int, list[PastForecast]] = field(default_factory=dict)

    def note(self, job: int, told: PastForecast) -> None:
        """Keep a forecast as it was before correction."""
        if told.came is None:
            self._open.setdefault(job, []).append(told)
        for kind in told.kinds:
            self._told.setdefault(kind, deque(maxlen=KEPT)).append(told)

    def came(self, job: int, at: float) -> None:
        """Note what came of a job's forecasts."""
        for each in self._open.pop(job, ()):
            each.came = at

    def drop(self, job: int) -> None:
        """Forget the open forecasts of a job that somebody stopped: nothing comes of them."""
        for each in self._open.pop(job, ()):
            for kind in each.kinds:
                self._told[kind] = deque((e for e in self._told[kind] if e is not each), KEPT)

    def corrected(self, said: TimeInterval, now: float, kinds: Iterable[Hashable]) -> TimeInterval:
        """Return the interval, corrected by the first of these kinds of which enough came true."""
        for kind in kinds:
            told = self._told.get(kind, ())
            if sum(each.came is not None for each in told) >= ENOUGH:
                return _corrected(said, now, [each.z(now) for each in told])
        return said


def _corrected(said: TimeInterval, now: float, seen: list[Seen]) -> TimeInterval:
    usual = survival([*seen, *_AS_IT_SHOULD])
    # Errors have no tail beyond the largest: that of lengths is of another unit.
    below, middle, above = (min(usual.at(part), usual.tail) - _SHIFT for part in (LOW, MIDDLE, HIGH))
    found = [_moved(said, now, z) for z in (middle, min(below, middle), max(above, middle))]
    return TimeInterval(*found)


def _moved(said: TimeInterval, now: float, z: float) -> float:
    middle, below, above = _widths(said, now)
    return now + exp(middle + z * (above if z > 0 else below))


def _widths(said: TimeInterval, made: float) -> tuple[float, float, float]:
    """Return the logarithm of the middle, and the widths of the interval below and above it."""
    middle, low, high = (_log(each - made) for each in (said.middle, said.low, said.high))
    return middle, max(middle - low, NARROWEST), max(high - middle, NARROWEST)


def _log(seconds: float) -> float:
    return log(max(seconds, SOON / 60))


_UNIT = NormalDist().inv_cdf(HIGH)
_AS_IT_SHOULD = tuple(
    Seen(NormalDist().inv_cdf((i + 0.5) / PRIOR) / _UNIT + _SHIFT) for i in range(PRIOR)
)
