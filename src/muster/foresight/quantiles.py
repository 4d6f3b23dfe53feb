"""A time as median and interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

LOW, MIDDLE, HIGH = 0.1, 0.5, 0.9
"""The 80 % interval and its middle."""
WIDEST = 20.0
"""Ratio of the ends of an interval, in time from now, beyond which a time is unknown."""
SOON = 10.0
"""s: a near end nearer than this counts as this far away, since "in 0 to 30 s" says enough."""


@dataclass(frozen=True, slots=True)
class TimeInterval:
    """When something happens, in s: the median, and the ends of the 80 % interval."""

    middle: float
    low: float
    high: float

    def is_known(self, now: float) -> bool:
        """Whether it says anything: its ends, in time from now, differ by at most a factor of 20."""
        return isfinite(self.high) and self.high - now <= WIDEST * max(self.low - now, SOON)

    def not_before(self, other: "TimeInterval") -> "TimeInterval":
        """Return the same, no part of it before that of another."""
        return TimeInterval(
            max(self.middle, other.middle), max(self.low, other.low), max(self.high, other.high)
        )

    def not_after(self, other: "TimeInterval") -> "TimeInterval":
        """Return the same, no part of it after that of another."""
        return TimeInterval(
            min(self.middle, other.middle), min(self.low, other.low), min(self.high, other.high)
        )

    def place_of(self, came: float) -> str:
        """Return where an outcome lies: "early", "within" the interval or "late"."""
        return "early" if came < self.low else "late" if came > self.high else "within"


def interval(moments: Sequence[float]) -> TimeInterval:
    """Return the quantiles of equally probable moments."""
    order = sorted(moments)
    return TimeInterval(*(_quantile(order, part) for part in (MIDDLE, LOW, HIGH)))


def _quantile(order: Sequence[float], part: float) -> float:
    """Interpolate; of n moments the i-th is the i / (n + 1) quantile (Weibull)."""
    place = min(max(part * (len(order) + 1) - 1, 0.0), len(order) - 1.0)
    below = int(place)
    above = min(below + 1, len(order) - 1)
    if order[above] == order[below] or place == below:
        return order[below]
    return order[below] + (place - below) * (order[above] - order[below])
