"""How long the next job of an application is, from those that have ended: a smooth distribution.

Jobs of one application differ by some factor, and how much they usually do is much the same for all
applications: with s, the standard deviation of the logarithm within an application, two jobs say a lot
about the third. Of n ended jobs each is a kernel (logistic, of deviation h); what no job has shown yet
is a tail of Pareto's from the longest on, with the weight of one job in `PRIOR` + n:

    P(W > w) = (1 - e) mean_i K((log w - log w_i) / h) + e min(1, longest / w),    h = s sqrt(2 / n)

so that with a single job the deviation of the next is s sqrt(2), as between two, and with many it is
their own. s of an application counts its own jobs, and what is usual as `OWN` further ones. What is
left of a job that has done d follows from P(W > w) / P(W > d): it stays short where d is a little more
than the others had, and is as much again (Lindy) where d is far beyond them all.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, pi, sqrt

import numpy as np

from muster.perf.learnt.batches import Array
from muster.perf.learnt.lengths import LEAST, SIGMA, Left

PRIOR = 9
"""Jobs of which one is taken to be unlike all others, before any was seen."""
OWN = 3.0
"""Jobs that the usual scatter counts as, in that of one application."""
USUAL = log(1.5)
"""Scatter before anything is known: the same script with other arguments."""
NARROW = 0.05
"""Least deviation of a kernel: progress is not known more exactly."""
MOST = 64
"""Jobs that are kernels, at even distances in the order of lengths."""
SHORTEST = 1e-3
"""Shorter than this part of the longest counts as that: what failed at once says little."""
NOTHING = 1e-9
"""Least work of the longest."""
POINTS, BEYOND = 160, 8.0
"""Lengths at which the distribution is kept, up to this many times the longest."""


@dataclass(slots=True)
class Scatter:
    """How much lengths differ within applications, over all of them."""

    squares: float = OWN * USUAL**2
    count: float = OWN
    usual: float = round(USUAL, 1)
    """Standard deviation of the logarithm, to a tenth: what follows from it is kept."""

    def add(self, before: Sequence[float], after: Sequence[float]) -> None:
        """Take in that an application's ended lengths have become others."""
        for lengths, sign in ((before, -1.0), (after, 1.0)):
            self.squares += sign * squares_of(lengths)
            self.count += sign * max(0, len(lengths) - 1)
        self.usual = max(0.1, round(sqrt(max(0.0, self.squares) / self.count), 1))


def squares_of(lengths: Sequence[float]) -> float:
    """Return the sum of squares of the logarithms about their mean."""
    if len(lengths) < 2:
        return 0.0
    logs = _logs(lengths)
    return float(((logs - logs.mean()) ** 2).sum())


def _logs(lengths: Sequence[float] | Array) -> Array:
    """Return the logarithms of sorted lengths."""
    return np.asarray(np.log(np.maximum(lengths, max(NOTHING, SHORTEST * float(lengths[-1])))))


@dataclass(frozen=True, slots=True, eq=False)
class AlikeLeft:
    """What is left of a job of an application, by the work it has done."""

    first: float
    """Logarithm of the work at which the table begins."""
    step: float
    """Between two of its rows."""
    middle: Sequence[float]
    """Logarithm of the work left."""
    spread: Sequence[float]
    whole: tuple[float, ...]
    """Lengths of a job that has done little: a deviation below the middle, the middle, one above."""

    @staticmethod
    def of(lengths: Sequence[float], usual: float) -> "AlikeLeft":
        """Return it from sorted lengths of ended jobs, and the usual scatter."""
        count = len(lengths)
        own = (OWN * usual**2 + squares_of(lengths)) / (OWN + count - 1)
        wide = max(NARROW, sqrt(own * 2 / count))
        every = np.linspace(0, count - 1, min(count, MOST)).round().astype(int)
        logs = _logs(np.asarray(lengths)[every])
        longest = float(logs[-1])
        at = np.linspace(float(logs[0]) - 4 * wide, longest + log(BEYOND), POINTS)
        rest = 1 / (PRIOR + count)
        kernels = 1 / (1 + np.exp(np.clip((at[:, None] - logs) * (pi / sqrt(3) / wide), -60, 60)))
        above = (1 - rest) * kernels.mean(axis=1) + rest * np.exp(np.minimum(0.0, longest - at))
        quantiles = [_quantile(at, above, part) for part in (SIGMA, 0.5, 1 - SIGMA)]
        low, middle, high = (np.maximum(np.exp(q) - np.exp(at), LEAST * np.exp(q)) for q in quantiles)
        return AlikeLeft(
            float(at[0]),
            float(at[1] - at[0]),
            np.log(middle).tolist(),
            (np.log(high / low) / 2).tolist(),
            tuple(float(np.exp(q[0])) for q in quantiles),
        )

    def left(self, done: float) -> Left:
        """Return what is left of a job that has done this much."""
        # Plain numbers: every cycle asks this of every job.
        place = (log(done) - self.first) / self.step if done > 0 else 0.0
        if place <= 0:
            low, usually, high = (each - done for each in self.whole)
            return Left(usually, log(high / low) / 2)
        last = len(self.middle) - 1
        if place >= last:
            return Left(exp(self.middle[last] + (place - last) * self.step), self.spread[last])
        i = int(place)
        part = place - i
        middle = self.middle[i] + part * (self.middle[i + 1] - self.middle[i])
        return Left(exp(middle), self.spread[i] + part * (self.spread[i + 1] - self.spread[i]))


def _quantile(at: Array, above: Array, part: float) -> Array:
    """Return the logarithm of the length that this part of those beyond each point do not exceed."""
    goal = np.log((1 - part) * above)
    known = np.log(above)
    inside = np.interp(-goal, -known, at)
    # Beyond the last point only the tail is left: P ~ 1 / w.
    return np.where(goal < known[-1], at[-1] + (known[-1] - goal), inside)
