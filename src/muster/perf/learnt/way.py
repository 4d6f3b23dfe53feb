"""What one step is worth along a job's way, learnt from all jobs of an application.

Gradients grow noisier as training goes on, so the same batch is worth more late than early. Progress is
divided into stretches, each an eighth of all that lies before it; each keeps the mean logarithm of
what was reported there. One that nobody has reported from is like the last before it that somebody has.
"""

from math import exp, log, log1p

STRETCH = 1.125
"""Ratio of the ends of a stretch: a job's second half is six of them."""


class Way:
    """Positive numbers by progress."""

    def __init__(self) -> None:
        self._sums: list[float] = []
        self._counts: list[int] = []
        self.version = 0
        """Counts stretches as they are first reported from."""

    def __bool__(self) -> bool:
        return bool(self._sums)

    def add(self, done: float, value: float) -> None:
        """A job that had done so much reported this."""
        at = stretch(done)
        while len(self._sums) <= at:
            self._sums.append(0.0)
            self._counts.append(0)
        self.version += not self._counts[at]
        self._sums[at] += log(value)
        self._counts[at] += 1

    def values(self) -> list[float]:
        """One for each stretch, up to the last that was reported from."""
        found: list[float] = []
        known = next(i for i, count in enumerate(self._counts) if count)
        for i, count in enumerate(self._counts):
            known = i if count else known
            found.append(exp(self._sums[known] / self._counts[known]))
        return found


def stretch(done: float) -> int:
    """The stretch of a job that has done so much."""
    return int(log1p(max(done, 0.0)) / log(STRETCH))


def start(at: int) -> float:
    """Where a stretch begins."""
    return float(STRETCH**at - 1)
