"""How long the changes of jobs take in one world: drawn once for each job and kind of change."""

from dataclasses import dataclass
from math import exp, log
from random import Random
from statistics import NormalDist

from muster.foresight.changing import Transition
from muster.foresight.delays import ENDING, GUESSED, Delay, TransitionDelays
from muster.model.decision import Kind
from muster.model.job import RESTART_SECONDS, Job
from muster.model.view import View
from muster.sim.executor import CHECKPOINT

_NORMAL = NormalDist()
_CERTAIN = 1e-6
"""Probabilities nearer than this to 0 or 1 are not told from them."""


@dataclass(frozen=True, slots=True)
class DrawnTimes:
    """Times of changes: see `sim.executor.ChangeTimes`."""

    view: View
    """Whose outlooks tell what changes cost."""
    delays: TransitionDelays
    world: str
    """Names the draws."""
    checkpoint: float = CHECKPOINT
    leave_first: bool = True

    def takes(self, job: Job, kind: Kind, joining: int, *, first: bool, passed: float = 0.0) -> float:
        """Return the s from the order, or from now on, until a change takes effect."""
        change = _change(kind, joining)
        return self.drawn(job, change, self._until(job, change, first=first), passed)

    def pause(self, job: Job, kind: Kind, *, first: bool = False) -> float:
        """Return the s without progress after that: what the change costs beyond its delay.

        What it is said to cost is mostly loading. New workers of a live resize load while the others
        train on, which the delay of their joining counts; one that restarts does nothing meanwhile."""
        if kind is Kind.START:
            until = self._until(job, Transition.START, first=first)
            return max(0.0, self.start(job, first=first) - until.middle)
        if job.restarts:
            return self.start(job)
        known = self.view.outlooks.get(job.number)
        if known is not None and known.resize is not None:
            return known.resize
        return max(0.0, job.pause - self._until(job, Transition.JOIN).middle)

    def drawn(self, job: Job, change: Transition, delay: Delay, passed: float = 0.0) -> float:
        """Return the s that are left in this world of something that has taken this many already."""
        if delay.middle <= 0.0:
            return 0.0
        part = Random(f"{self.world}/{job.number}/{change}").random()
        if passed > 0.0 and delay.spread > 0.0:
            before = _NORMAL.cdf(log(passed / delay.middle) / delay.spread)
            part = before + (1.0 - before) * part
        part = min(max(part, _CERTAIN), 1.0 - _CERTAIN)
        whole = delay.middle * exp(delay.spread * _NORMAL.inv_cdf(part))
        return max(0.0, whole - passed)

    def end(self, job: Job, passed: float) -> float:
        """Return the s from the last of the work to the job's end."""
        return self.drawn(job, Transition.END, self._until(job, Transition.END), passed)

    def _until(self, job: Job, change: Transition, *, first: bool = False) -> Delay:
        """Return the delay of a change. While none was seen a start takes what it is said to cost, and
        joining as long as a start."""
        found = self.delays.of(job, change)
        if found is not None:
            return found
        if change is Transition.JOIN:
            return self._until(job, Transition.START)
        start = change is Transition.START
        return Delay(self.start(job, first=first), GUESSED) if start else ENDING

    def start(self, job: Job, *, first: bool = False) -> float:
        """Return the s without progress that a start costs: as measured, else what users say. They say
        what a stop costs, and a first start follows none."""
        known = self.view.outlooks.get(job.number)
        if known is not None and known.start is not None:
            return known.start
        return min(job.pause, RESTART_SECONDS) if first else job.pause


def _change(kind: Kind, joining: int) -> Transition:
    if kind is Kind.START:
        return Transition.START
    if kind is Kind.PREEMPT:
        return Transition.STOP
    return Transition.JOIN if joining else Transition.LEAVE
