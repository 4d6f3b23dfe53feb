"""Beliefs between learnt and true, for typed worlds: what lengths and speeds cost each.

`Foreknown` believes of lengths as well as can be: it knows the distribution that they were drawn
from (`typed_worlds`), and not the draws. An application's usual length m is uniform in the logarithm,
a job's is log-normal about m with the deviation s = `ALIKE`. So with ended jobs of lengths w and live
ones that have done d, the job itself left out,

    p(m)  ~  product of N(log w; m, s) over the ended  x  product of P(W > d | m) over the live
    P(W > x)  =  sum over m of p(m) P(W > x | m)

What is left of a job that has done d follows from P(W > x) / P(W > d), and counts as its Gittins index:

    min over t of  E[min(W - d, t)] / P(W - d <= t)                                  (s on one T4)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.sim.learnt import Learnt
from muster.sim.truth import Truth
from support.typed_worlds import ALIKE, LENGTHS, NODES

Array = NDArray[np.float64]

UNIT = min(NODES)
"""Learnt work is counted in s on one device of the first type by name, true work in s on one T4."""
USUAL = np.linspace(log(LENGTHS.low), log(LENGTHS.high), 80)
"""Logarithms of what an application's jobs usually take."""
ENDS = np.linspace(log(LENGTHS.low) - 6 * ALIKE, log(LENGTHS.high) + 6 * ALIKE, 240)
"""Logarithms of a job's length."""
BEYOND = ndtr((USUAL[:, None] - ENDS) / ALIKE)
"""P(W > x | m) by m and x."""
MARKS = 16
"""Marks of a job's progress in each factor e: only at one does it say more about others."""
LEAST = 1e-3
"""Least probability to end that is worth investing in."""


@dataclass(slots=True)
class _Application:
    """What its jobs have shown."""

    ended: Array = field(default_factory=lambda: np.zeros(len(USUAL)))
    """Log-likelihood of each m by the jobs that have ended."""
    live: dict[int, int] = field(default_factory=dict)
    """The last mark of each live job."""
    heard: int = 0
    """Counts what it was told."""


class TrueLengths(Learnt):
    """Speeds are learnt, lengths are true."""

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return what is learnt, with the true length."""
        learnt, true = super().outlook(job, truth, crew, done), truth.outlook(done, crew)
        return replace(learnt, left=true.left / true.speed.rate(UNIT, 1), spread=0.0)


class Foreknown(Learnt):
    """Speeds are learnt, lengths follow from the distribution that they were drawn from."""

    def __init__(self, node_devices: Mapping[str, int]) -> None:
        super().__init__(node_devices)
        self._applications: dict[str, _Application] = {}
        self._memo: dict[int, tuple[tuple[int, int], float]] = {}

    def ended(self, job: Job, work: float) -> None:
        """Learn the total work of an ended job."""
        super().ended(job, work)
        known = self._known(job)
        known.live.pop(job.number, None)
        known.ended -= ((log(work) - USUAL) / ALIKE) ** 2 / 2
        known.heard += 1

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return learnt speeds, and the length that is as urgent as what is believed."""
        learnt, true = super().outlook(job, truth, crew, done), truth.outlook(done, crew)
        return replace(learnt, left=self._left(job, done) / true.speed.rate(UNIT, 1), spread=0.0)

    def _known(self, job: Job) -> _Application:
        return self._applications.setdefault(job.application or job.name, _Application())

    def _left(self, job: Job, done: float) -> float:
        known, mark = self._known(job), int(log(max(done, 1.0)) * MARKS)
        if known.live.get(job.number) != mark:
            known.live[job.number] = mark
            known.heard += 1
        state = known.heard, int(done / (1.0 + done / 100.0))
        if self._memo.get(job.number, (None,))[0] != state:
            self._memo[job.number] = state, _index(self._usual(known, job.number), done)
        return self._memo[job.number][1]

    def _usual(self, known: _Application, number: int) -> Array:
        """Return p(m), without what the job itself shows."""
        others = (mark / MARKS for each, mark in known.live.items() if each != number)
        likely = known.ended + sum(log_ndtr((USUAL - done) / ALIKE) for done in others)
        return np.asarray(np.exp(likely - likely.max()))


class ForeknownTrueSpeeds(Foreknown):
    """Lengths likewise; speeds are true."""

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return true speeds, and the length that is as urgent as what is believed."""
        learnt, true = super().outlook(job, truth, crew, done), truth.outlook(done, crew)
        left = learnt.left * true.speed.rate(UNIT, 1)
        return replace(learnt, left=left, speed=true.speed, here=true.here)


def _index(usual: Array, done: float) -> float:
    """Return the s that count as left of a job that has done this much."""
    above, begin = usual @ BEYOND, log(max(done, 1.0))
    alive = float(np.interp(begin, ENDS, above))
    later = begin < ENDS
    if alive <= 0.0 or later.sum() < 2:
        return 0.1 * done  # longer than any: with what was drawn it cannot be
    at = np.concatenate(([done], np.exp(ENDS[later])))
    lives = np.concatenate(([alive], above[later])) / alive
    invested = np.cumsum(np.diff(at) * (lives[1:] + lives[:-1]) / 2)
    ends = 1.0 - lives[1:]
    worth = np.divide(invested, ends, out=np.full(len(ends), inf), where=ends > LEAST)
    return max(1.0, float(worth.min()))
