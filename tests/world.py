"""A view under way, for tests: what happens, then a cycle (checked), then what happens..."""

from dataclasses import dataclass, field
from typing import Any

from muster.core.cycle.cycle import Decisions, Memory, decide, kept
from muster.core.cycle.cycle_state import Rules
from muster.core.state.begin import begun
from muster.core.state.check import check
from muster.core.state.evolve import evolve
from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started, Submitted
from muster.model.job import Job
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.reason import Reason
from muster.model.topology import each_bit
from muster.model.view import JobState, Phase, View
from muster.policy.base import Policy
from muster.policy.published.fifo import Fifo
from tests.builders import placement, running

COMPLETES: dict[Phase, type[Started | Resized | Migrated | Preempted]] = {
    Phase.STARTING: Started,
    Phase.RESIZING: Resized,
    Phase.MIGRATING: Migrated,
    Phase.PREEMPTING: Preempted,
}


def number_of(view: View, name: str) -> int:
    """The live job of this name; in tests of the core, all are of one user."""
    return next(number for number, state in view.jobs.items() if state.job.name == name)


@dataclass(frozen=True, slots=True)
class Frame:
    """One cycle of a world."""

    now: float
    before: View
    memory: Memory
    decided: Decisions
    after: View

    def of(self, *kinds: Kind) -> list[Decision]:
        """The decisions of these kinds."""
        return [decision for decision in self.decided.decisions if decision.kind in kinds]

    def names(self, kind: Kind) -> set[str]:
        """The names of the jobs that got this kind of decision."""
        return {self.before.jobs[decision.job].job.name for decision in self.of(kind)}

    def decision(self, job: str) -> Decision:
        """What was decided about a job that starts, changes or waits."""
        return next(each for each in self.decided.decisions if each.job == number_of(self.before, job))

    def reason(self, job: str) -> Reason:
        """Why, for any job."""
        unchanged = {each.job: each.reason for each in kept(self.before, self.decided)}
        return unchanged.get(number_of(self.before, job)) or self.decision(job).reason


@dataclass(slots=True)
class World:
    """A view under way: what happens, then a cycle, then what happens..."""

    view: View
    now: float = 0.0
    memory: Memory = field(default_factory=Memory)
    policy: Policy = field(default_factory=Fifo)
    rules: Rules = field(default_factory=Rules)

    def happen(self, *events: Event) -> None:
        """Let these come true."""
        self.view = evolve(self.view, events)

    def submit(self, *jobs: Job) -> None:
        """Hand over jobs, now."""
        self.happen(*(Submitted(job, self.now) for job in jobs))

    def end(self, *names: str) -> None:
        """Let jobs succeed."""
        states = [self.state(name) for name in names]
        self.happen(*(Ended(s.number, s.generation, Outcome.SUCCEEDED, self.now) for s in states))

    def complete(self) -> None:
        """Let every change under way be done."""
        self.happen(*(completion(s, self.now) for s in self.view.jobs.values() if s.phase in COMPLETES))

    def state(self, name: str) -> JobState:
        """The state of a live job."""
        return self.view.jobs[number_of(self.view, name)]

    def phase(self, name: str) -> Phase:
        """Where a live job is in its life."""
        return self.state(name).phase

    def bits(self, name: str) -> dict[str, int]:
        """The devices a job runs on, by node."""
        placement = self.state(name).placement
        return placement.bits() if placement else {}

    def cycle(self, seconds: float = 0.0) -> Frame:
        """Let time pass, decide, check, and begin what was decided."""
        self.now += seconds
        before, memory = self.view, self.memory
        decided = decide(self.policy, before, self.now, memory, self.rules)
        check(before, decided)
        self.memory = decided.memory
        self.view = evolve(before, begun(decided, self.now))
        return Frame(self.now, before, memory, decided, self.view)

    def settle(self, seconds: float = 1.0) -> Frame:
        """Every change done, then a cycle."""
        self.complete()
        return self.cycle(seconds)


def completion(state: JobState, now: float) -> Event:
    """The event that ends what the job is going through."""
    return COMPLETES[state.phase](state.number, state.generation, now)


def flat(**quotas: Quota) -> PoolTree:
    """Pools side by side, with these quotas of A100."""
    return PoolTree({name: Pool(name, quotas={"A100": quota}) for name, quota in quotas.items()})


def on(asked: Job, node: str, bits: int, **fields: Any) -> JobState:
    """The state of a job that runs with one-device workers on these bits of one node."""
    return running(asked, placement(*((node, 1 << bit) for bit in each_bit(bits))), **fields)
