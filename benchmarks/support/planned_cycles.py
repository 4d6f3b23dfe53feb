"""Cycles of a large cluster with several planners: what each part takes, and what is refused.

Jobs end and come between two cycles, so that planners follow by what has changed.
"""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.planners.beside import PlannersBeside
from muster.core.planners.pool_planner import PoolPlanner
from muster.core.planners.proposal import Planners, PlanningRequest, Proposal
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.daemon.planners.processes import PlannerProcesses
from muster.model.event import Ended, Event, Outcome, Started, Submitted
from muster.model.job import Job
from muster.model.view import JobState, Phase, View
from muster.policy.base import Policy

TURNOVER = 0.05
"""Part of the running jobs that ends between two cycles; as many come."""
SECONDS = 60.0
"""Between two cycles."""

NewJob = Callable[[int, str, Random], Job]


@dataclass(frozen=True, slots=True)
class Parts:
    """Medians over some cycles, in s; the first one, which sends the whole view, is left out."""

    planners: int
    clock: float
    """By the clock, whatever else the machine does."""
    centre: float
    """Processor time of the centre."""
    planner: float
    """Of the busiest planner."""
    decisions: float
    """Decided in a cycle."""
    sent: float = 0.0
    """Bytes sent to each planner."""

    @property
    def cycle(self) -> float:
        """s of a cycle with a core for each planner: the centre waits while they plan."""
        return self.centre + self.planner

    @property
    def rate(self) -> float:
        """Decisions per s."""
        return self.decisions / self.cycle

    @property
    def clock_rate(self) -> float:
        """Decisions per s by the clock."""
        return self.decisions / self.clock


def calculated(processes: Parts, same: Parts, more: Parts) -> Parts:
    """Return the parts with more planners, each in a process on a core of its own.

    `more` and `same` are measured in one process, planner by planner, where nothing has to be sent;
    what messages cost the centre and a planner is the difference between `processes` and `same`, which
    have as many planners. Every planner is sent the same changes, and the centre sends them once.
    """
    centre = more.centre + max(0.0, processes.centre - same.centre)
    planner = more.planner + max(0.0, processes.planner - same.planner)
    return Parts(more.planners, centre + planner, centre, planner, more.decisions, processes.sent)


@dataclass
class World:
    """A view under way."""

    view: View
    new_job: NewJob
    now: float
    random: Random

    def carry_out(self, decided: Decisions) -> None:
        """Let everything decided be done, some jobs end, and as many come."""
        self._happen(begun(decided, self.now))
        states = self.view.jobs.values()
        self._happen([Started(s.number, s.generation, self.now) for s in states if _starts(s)])
        self.now += SECONDS
        running = [s for s in self.view.jobs.values() if s.phase is Phase.RUNNING]
        over = self.random.sample(running, int(TURNOVER * len(running)))
        self._happen([Ended(s.number, s.generation, Outcome.SUCCEEDED, self.now) for s in over])
        first = max(self.view.jobs) + 1
        pools = [state.job.pool for state in over]
        new = [self.new_job(first + i, pool, self.random) for i, pool in enumerate(pools)]
        self._happen([Submitted(job, self.now) for job in new])

    def _happen(self, events: list[Event]) -> None:
        self.view = evolve(self.view, events)


def _starts(state: JobState) -> bool:
    return state.phase is Phase.STARTING


@contextmanager
def _planners(policy: Policy, count: int) -> Iterator[PlannerProcesses]:
    found = PlannerProcesses(policy.name, count, patience=600.0)
    try:
        found.wait_until_ready()
        yield found
    finally:
        found.close()


def measure(policy: Policy, planners: int, view: View, new_job: NewJob, cycles: int) -> Parts:
    """Measure cycles with planners in processes."""
    with _planners(policy, planners) as found:
        rows = []
        for decided, seconds, own in _run(policy, found, view, new_job, cycles):
            busy = max(process.busy for process in found.processes)
            rows.append((seconds, own, busy, len(decided.decisions), found.sent / planners))
        assert found.replaced == 0
    seconds, own, busy, decisions, sent = (statistics.median(each) for each in zip(*rows, strict=True))
    return Parts(planners, seconds, own, busy, decisions, sent)


def alone(policy: Policy, view: View, new_job: NewJob, cycles: int) -> tuple[float, float, float]:
    """Return s of a cycle without planners, by the clock and of the process, and its decisions."""
    runs = _run(policy, None, view, new_job, cycles)
    rows = [(seconds, own, len(decided.decisions)) for decided, seconds, own in runs]
    clock, own, decisions = (statistics.median(each) for each in zip(*rows, strict=True))
    return clock, own, decisions


class _Timed:
    """A planner, and the s of processor time of its last answer."""

    def __init__(self, planner: PoolPlanner) -> None:
        self._planner = planner
        self.busy = 0.0

    def propose(self, view: View, asked: PlanningRequest) -> Proposal:
        begun_at = time.process_time()
        proposal = self._planner.propose(view, asked)
        self.busy = time.process_time() - begun_at
        return proposal


def beside(
    policy: Policy, planners: int, view: View, new_job: NewJob, cycles: int
) -> tuple[Parts, float, float]:
    """Measure cycles with any number of planners in this process, one after another; return their
    parts, and what parts of all claims are planned again and come too late."""
    every = PlannersBeside(policy, planners)
    timed = [_Timed(each) for each in every._planners]
    every._planners = timed  # type: ignore[assignment]
    rows, claims, refused, outpaced = [], 0, 0, 0
    for decided, seconds, own in _run(policy, every, view, new_job, cycles):
        busy = [each.busy for each in timed]
        rows.append((seconds, own - sum(busy), max(busy), len(decided.decisions)))
        assert decided.approved is not None
        claims += decided.approved.claims
        refused += decided.approved.refused
        outpaced += decided.approved.outpaced
    clock, centre, planner, decisions = (statistics.median(each) for each in zip(*rows, strict=True))
    parts = Parts(planners, clock, centre, planner, decisions)
    return parts, refused / max(1, claims), outpaced / max(1, claims)


def _run(
    policy: Policy, planners: Planners | None, view: View, new_job: NewJob, cycles: int
) -> Iterator[tuple[Decisions, float, float]]:
    """Yield each cycle after the first, its s by the clock and of this process."""
    cycle, memory = Cycle(policy, planners=planners), Memory()
    world = World(view, new_job, float(len(view.jobs)), Random(1))
    for turn in range(cycles + 1):
        begun_at, own = time.perf_counter(), time.process_time()
        decided = cycle.decide(world.view, world.now, memory)
        seconds, own = time.perf_counter() - begun_at, time.process_time() - own
        check(world.view, decided)
        memory = decided.memory
        if turn:
            yield decided, seconds, own
        world.carry_out(decided)
