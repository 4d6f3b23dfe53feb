"""Cycles of Muster's own policy on a large cluster: full, one job later, and quiet.

The scenes are those of `core.py`: half of the devices in use, in eight pools. Every job is of one of
twelve applications, whose speed-ups are known. What a cycle decides comes true at once, until nothing
changes any more; then time goes on by ten seconds a cycle, and every running job with it. Garbage is
collected as in the daemon.

Full cycles, and those after one job has gone and another one come, are of the mix `crowded`: jobs wait
for four times what is free. There no cycle is quiet, for jobs become due every few seconds by having
waited too long. Quiet ones are of the mix `roomy`, where what waits just about fits: cycles that change
nothing. Most of them rest, and one in three looks again whether all is well, so that their middle says
what a quiet cycle takes, and their mean what a quiet daemon costs.
"""

import gc
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from random import Random

from core import MIXES, job_of, scene
from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.daemon.planners.child_main import GC_THRESHOLD
from muster.model.decision import Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started, Submitted
from muster.model.outlook import Outlook
from muster.model.view import JobState, View
from muster.policy.muster import Muster
from muster.sim.worlds.power import PowerSpeed

APPLICATIONS = 12
SECONDS = 10.0
"""Between two cycles, like the daemon's."""
LATER = 60.0
"""s after the last change, when no pause is to be waited for."""
SETTLED = 12
"""Most cycles until nothing changes."""
WATCHED = 40
"""Cycles among which quiet ones are found."""
DONE: dict[Kind, type[Started | Resized | Migrated | Preempted]] = {
    Kind.START: Started,
    Kind.RESIZE: Resized,
    Kind.MIGRATE: Migrated,
    Kind.PREEMPT: Preempted,
}


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """CPU seconds of cycles that rebuild everything, follow one job, look again, and change nothing."""

    full: float
    one_job: float
    look: float
    quiet: float
    quiet_mean: float
    changes: int
    """Of the first cycle: one that decides nothing would say little."""
    still: float
    """Part of the cycles watched that were quiet."""


class Large:
    """A large cluster with its jobs, decided over and over."""

    def __init__(self, devices: int, jobs: int, mix: str) -> None:
        self._random = Random(7)
        self._speeds = [PowerSpeed(1, 0.5 + 0.04 * i) for i in range(APPLICATIONS)]
        self._left: dict[int, float] = {}
        self._cycle, self._memory = Cycle(Muster(), explain=False), Memory()
        self.now = float(jobs)
        self.view = scene(MIXES[mix], devices, jobs, seed=1)

    def full(self) -> tuple[float, int]:
        """Return the s of a cycle that knows nothing, and how many jobs it changes."""
        view = self._informed()
        seconds, decided = self._timed(Cycle(Muster(), explain=False), view, Memory())
        return seconds, sum(each.kind is not Kind.WAIT for each in decided.decisions)

    def settle(self) -> None:
        """Decide until nothing changes any more."""
        for _ in range(SETTLED):
            _, decided = self._timed(self._cycle, self._informed(), self._memory)
            if not self._carry_out(decided):
                break
            self.now += SECONDS
        self.now += LATER

    def next(self) -> tuple[float, bool]:
        """Return the s of the next cycle, and whether it was quiet."""
        self.now += SECONDS
        seconds, decided = self._timed(self._cycle, self._informed(), self._memory)
        return seconds, not self._carry_out(decided)

    def one_job(self, number: int) -> float:
        """Return the s of the next cycle if a job has ended and another one come."""
        running = [state for state in self.view.jobs.values() if state.placement is not None]
        gone = self._random.choice(running)
        new = job_of(number - 1, gone.job.pool, self._random, 1)
        ended = Ended(gone.number, gone.generation, Outcome.SUCCEEDED, self.now)
        self.view = evolve(self.view, [ended, Submitted(new, self.now)])
        return self.next()[0]

    def _timed(self, cycle: Cycle, view: View, memory: Memory) -> tuple[float, Decisions]:
        begun_at = time.process_time()
        decided = cycle.decide(view, self.now, memory)
        seconds = time.process_time() - begun_at
        check(view, decided)
        return seconds, decided

    def _carry_out(self, decided: Decisions) -> bool:
        """Let everything decided come true; return whether something was."""
        facts: list[Event] = list(begun(decided, self.now))
        for each in decided.decisions:
            if (done := DONE.get(each.kind)) is not None:
                facts.append(done(each.job, each.generation, self.now))
        self.view, self._memory = evolve(self.view, facts), decided.memory
        return bool(facts)

    def _informed(self) -> View:
        outlooks = {state.number: self._outlook(state) for state in self.view.jobs.values()}
        return replace(self.view, outlooks=outlooks)

    def _outlook(self, state: JobState) -> Outlook:
        number = state.number
        if number not in self._left:
            self._left[number] = self._random.lognormvariate(9.0, 1.5)
        speed = self._speeds[number % APPLICATIONS]
        workers = 0 if state.placement is None else len(state.placement.slots)
        here = speed.rate("", workers)
        self._left[number] = max(1.0, self._left[number] - SECONDS * here)
        return Outlook(self._left[number], speed, spread=0.3, here=here or None)


@contextmanager
def _collected_as_live() -> Iterator[None]:
    """Collect garbage as rarely as the daemon does."""
    usual = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLD)
    try:
        yield
    finally:
        gc.set_threshold(*usual)


@_collected_as_live()
def measure_cycles(devices: int, jobs: int, repeats: int) -> CycleTimes:
    """Measure all three; the middle of the repeats."""
    crowded = Large(devices, jobs, "crowded")
    full = [crowded.full() for _ in range(repeats)]
    crowded.settle()
    one = [crowded.one_job(jobs + 1 + i) for i in range(repeats)]
    quiet, still = _quiet(Large(devices, jobs, "roomy"))
    times = _middle(s for s, _ in full), _middle(one), max(quiet), _middle(quiet)
    return CycleTimes(*times, sum(quiet) / len(quiet), full[0][1], still)


def _quiet(large: Large) -> tuple[list[float], float]:
    """Return the s of each quiet cycle, and their part of all watched; inf: there was none."""
    large.settle()
    watched = [large.next() for _ in range(WATCHED)]
    found = [seconds for seconds, quiet in watched if quiet]
    return found or [inf], len(found) / len(watched)


def _middle(seconds: Iterable[float]) -> float:
    found = sorted(seconds)
    return found[len(found) // 2]
