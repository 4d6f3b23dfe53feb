"""Cycles of Muster's own policy on a large cluster: full, one job later, and quiet.

The scene is that of `core.py`: half of the devices in use, in eight pools, and jobs waiting for four
times what is free. Every job is of one of twelve applications, whose speed-ups are known. What a cycle
decides comes true at once, until nothing changes any more; then time goes on by ten seconds a cycle,
and every running job with it. Of the cycles that find nothing to do, two of three rest and the third
looks again whether all is well. In so crowded a cluster some cycle always finds a job that has waited
too long, and one that changes something is no quiet one: `rests` says how many of all were.
"""

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from random import Random

from core import MIXES, job_of, scene
from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
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
WATCHED = 4
"""Most cycles watched, in times of the quiet ones asked for."""
DONE: dict[Kind, type[Started | Resized | Migrated | Preempted]] = {
    Kind.START: Started,
    Kind.RESIZE: Resized,
    Kind.MIGRATE: Migrated,
    Kind.PREEMPT: Preempted,
}


@dataclass(frozen=True, slots=True)
class CycleTimes:
    """CPU seconds of cycles that rebuild everything, follow one job, look again, and rest."""

    full: float
    one_job: float
    look: float
    quiet: float
    changes: int
    """Of the first cycle: one that decides nothing would say little."""
    rests: float
    """Part of the cycles watched that found nothing to do, quiet ones all."""


class Large:
    """A large cluster with its jobs, decided over and over."""

    def __init__(self, devices: int, jobs: int) -> None:
        self._random = Random(7)
        self._speeds = [PowerSpeed(1, 0.5 + 0.04 * i) for i in range(APPLICATIONS)]
        self._left: dict[int, float] = {}
        self._cycle, self._memory = Cycle(Muster(), explain=False), Memory()
        self.now = float(jobs)
        self.view = scene(MIXES["crowded"], devices, jobs, seed=1)

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
        """Return the s of the next cycle, and whether it was quiet: nothing was changed."""
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


def measure_cycles(devices: int, jobs: int, repeats: int) -> CycleTimes:
    """Measure all three; the middle of the repeats."""
    large = Large(devices, jobs)
    full = [large.full() for _ in range(repeats)]
    large.settle()
    watched, quiet = 0, list[float]()
    wanted = 3 * (repeats // 3 + 1)
    while len(quiet) < wanted and watched < WATCHED * wanted:
        seconds, rests = large.next()
        watched += 1
        quiet += [seconds] if rests else []
    one = [large.one_job(jobs + 1 + i) for i in range(repeats)]
    found = quiet or [inf]
    times = _middle(s for s, _ in full), _middle(one), max(found), _middle(found)
    return CycleTimes(*times, full[0][1], len(quiet) / watched)


def _middle(seconds: Iterable[float]) -> float:
    found = sorted(seconds)
    return found[len(found) // 2]
