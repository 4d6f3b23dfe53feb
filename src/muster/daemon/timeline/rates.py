"""How fast a training was, from the points of its curve."""

from collections.abc import Iterator, Sequence

from muster.store.batch import CurvePoint

STEADY = 1.0
"""Seconds that a rate is taken over: reports that arrive together would tell millions of samples/s."""


def rates(points: Sequence[CurvePoint]) -> Iterator[float]:
    """Yield the samples/s before each point; 0 at the first, and where a training starts over."""
    first = 0
    for at, point in enumerate(points):
        if at and point.samples < points[at - 1].samples:
            first = at
        while first + 1 < at and point.at - points[first + 1].at >= STEADY:
            first += 1
        seconds, samples = point.at - points[first].at, point.samples - points[first].samples
        yield samples / seconds if seconds > 0 else 0.0
