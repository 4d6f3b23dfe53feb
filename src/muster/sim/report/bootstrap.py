"""Bootstrap intervals of figures (Efron, 1979), by jobs and by seeds.

The jobs of one simulation are resampled with replacement. With several seeds, seeds are drawn first,
then jobs of each (a two-stage bootstrap: Davison and Hinkley, Bootstrap Methods, 1997, section 3.8);
the figure is the mean over the seeds. Policies are compared on the same draws, job by job, so what they
have in common cancels out. Intervals are between percentiles; for heavy tails they are somewhat too
narrow, like all without a model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from muster.sim.report.curve import Floats

DRAWS = 1000
"""Enough for the ends of a 95 % interval to two digits of its width (Efron and Tibshirani, 1993)."""
LEVEL = 0.95
AT_ONCE = 2_000_000
"""Numbers drawn at a time: 16 MB for any number of jobs."""

Statistic = Callable[[Floats, Floats], Floats]
"""Figures (draw, column) of values (job, column), jobs weighted by counts (draw, job)."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure and its interval at confidence LEVEL."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Draws:
    """One figure of several policies: its value, and its value in each draw."""

    value: Floats
    """(policy)"""
    drawn: Floats
    """(draw, policy); a draw has the same jobs for all policies."""

    def interval(self, policy: int) -> Interval:
        """Return the interval of one policy's figure."""
        return _interval(self.value[policy], self.drawn[:, policy])

    def ratio(self, policy: int, to: int) -> Interval:
        """Return the interval of one policy's figure divided by another's."""
        drawn = self.drawn[:, policy] / self.drawn[:, to]
        return _interval(self.value[policy] / self.value[to], drawn)


def draws(seeds: Sequence[Floats], statistic: Statistic, *, seed: int = 0, count: int = DRAWS) -> Draws:
    """Resample a figure; `seeds` has values (job, policy) for each seed."""
    random = np.random.default_rng(seed)
    whole = [statistic(values, np.ones((1, len(values))))[0] for values in seeds]
    if len(seeds) == 1:
        return Draws(whole[0], _redrawn(seeds[0], statistic, count, random))
    chosen = random.integers(len(seeds), size=(count, len(seeds)))
    drawn = np.empty((count, len(seeds), len(whole[0])))
    for index, values in enumerate(seeds):
        here = chosen == index
        if here.any():
            drawn[here] = _redrawn(values, statistic, int(here.sum()), random)
    return Draws(np.mean(whole, axis=0), drawn.mean(axis=1))


def mean(values: Floats, counts: Floats) -> Floats:
    """Return the mean of each column."""
    figures: Floats = (counts @ values) / counts.sum(axis=1, keepdims=True)
    return figures


def quantiles(*levels: float) -> Statistic:
    """Return quantiles of each column, interpolated like NumPy's, ordered by level."""

    def figures(values: Floats, counts: Floats) -> Floats:
        found = [_quantiles(np.array(levels), column, counts) for column in values.T]
        return np.stack(found, axis=2).reshape(len(counts), -1)

    return figures


def _quantiles(levels: Floats, column: Floats, counts: Floats) -> Floats:
    """Return the quantiles (draw, level) of one column: a job counted k times appears k times."""
    order = np.argsort(column)
    values = column[order]
    figures = np.empty((len(counts), len(levels)))
    for row, count in enumerate(counts):
        upto = np.cumsum(count[order])
        below, part = np.divmod(levels * (upto[-1] - 1), 1.0)
        low = values[np.searchsorted(upto, below, side="right")]
        high = values[np.searchsorted(upto, np.minimum(below + 1, upto[-1] - 1), side="right")]
        figures[row] = low + part * (high - low)
    return figures


def _redrawn(values: Floats, statistic: Statistic, count: int, random: np.random.Generator) -> Floats:
    """Return the figure in `count` draws of the jobs, some draws at a time."""
    jobs = len(values)
    rows = max(1, AT_ONCE // max(1, jobs))
    parts = [
        statistic(values, _counts(jobs, min(rows, count - begin), random))
        for begin in range(0, count, rows)
    ]
    return np.concatenate(parts)


def _counts(jobs: int, rows: int, random: np.random.Generator) -> Floats:
    """Return how often each job is drawn in each row."""
    drawn = random.integers(jobs, size=(rows, jobs), dtype=np.int32)
    return np.stack([np.bincount(row, minlength=jobs) for row in drawn]).astype(float)


def _interval(value: float, drawn: Floats) -> Interval:
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Interval(float(value), float(low), float(high))
