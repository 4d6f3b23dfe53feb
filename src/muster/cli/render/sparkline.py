"""A curve as one line of text."""

from collections.abc import Sequence
from math import isfinite

_LEVELS = "▁▂▃▄▅▆▇█"
_NOTHING = " "


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Draw the curve at this width: each bar is the mean of its values; NaN leaves a gap."""
    if not values:
        return ""
    width = min(width, len(values))
    means = [
        _mean(values[i * len(values) // width : (i + 1) * len(values) // width]) for i in range(width)
    ]
    finite = [mean for mean in means if mean is not None]
    if not finite:
        return _NOTHING * width
    low, high = min(finite), max(finite)
    return "".join(_bar(mean, low, high) for mean in means)


def _mean(values: Sequence[float]) -> float | None:
    finite = [value for value in values if isfinite(value)]
    return sum(finite) / len(finite) if finite else None


def _bar(value: float | None, low: float, high: float) -> str:
    if value is None:
        return _NOTHING
    if high == low:
        return _LEVELS[0]
    return _LEVELS[round((value - low) / (high - low) * (len(_LEVELS) - 1))]
