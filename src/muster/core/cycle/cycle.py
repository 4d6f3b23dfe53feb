"""The cycle: from a frozen view to a decision with a reason for every job."""

from collections.abc import Collection
from dataclasses import dataclass, field
from math import inf

from muster.core.cycle.apart import part_neighbours
from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.drain import drain, next_clearing
from muster.core.cycle.growth import contested, grow
from muster.core.cycle.off_slow import leave_slow_links
from muster.core.cycle.outcome import MigrationReport
from muster.core.cycle.plans import seconds_left
from muster.core.cycle.rearrange import excess
from muster.core.cycle.staff_servers import staff_servers
from muster.core.cycle.standing import Standing
from muster.core.cycle.start_gangs import borrow, keep_promises, serve
from muster.core.cycle.steer import steer
from muster.core.quotas.pools import entitle
from muster.core.why.explain import Explainer
from muster.model.decision import Decision, Kept, Kind, Promise
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.plan import ChosenPlan
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase, View
from muster.place.adaptive import Mood
from muster.planner.counts import plan_for
from muster.policy.base import Policy


@dataclass(frozen=True, slots=True)
class Memory:
    """What one cycle leaves for the next."""

    mood: Mood = field(default_factory=Mood)
    promises: tuple[Promise, ...] = ()
    policy: object = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The result of one cycle, valid only for this version of the view."""

    version: int
    decisions: tuple[Decision, ...]
    memory: Memory
    entitlements: Entitlements
    migrations: tuple[MigrationReport, ...] = ()
    again: float = inf
    """When another cycle is needed even if nothing happens, in s: for the policy or a deadline."""


class Cycle:
    """Decides repeatedly on one cluster. What it keeps between views only saves time."""

    def __init__(self, policy: Policy, rules: Rules | None = None, *, explain: bool = True) -> None:
        self._policy = policy
        self._rules = rules or Rules()
        self._explain = explain
        """Whether waiting jobs get the full reason, or only its code."""
        self._standing: Standing | None = None

    def decide(self, view: View, now: float, memory: Memory) -> Decisions:
        """Decide about all jobs. Deterministic; the view is not changed."""
        # After an exception below, a half-updated standing must not be reused.
        standing, self._standing = self._standing, None
        if standing is None:
            standing = Standing(view)
        else:
            standing.follow(view)
        decided = self._decide(standing, now, memory)
        self._standing = standing
        return decided

    def _decide(self, standing: Standing, now: float, memory: Memory) -> Decisions:
        view = standing.view
        # 1 entitle: how much each pool may use now
        entitled = entitle(view.pools, standing.available, standing.demands(memory.promises))
        # 2 allocate: workers per job by the policy, most urgent first
        shares = self._policy.allocate(view, entitled, now, memory.policy)
        cycle = CycleState(standing, entitled, shares.allocations, now, memory.mood, self._rules)
        # 3-5 plan, place, commit
        keep_promises(cycle, memory.promises)
        drain(cycle)
        if shares.steers:
            steer(cycle)
        else:
            _queue(cycle)
        staff_servers(cycle)
        leave_slow_links(cycle)
        part_neighbours(cycle)
        # 6 compare with what runs now, with reasons
        decisions = _compare(cycle, explain=self._explain)
        cycle.close()
        return Decisions(
            view.version,
            decisions,
            Memory(cycle.mood, tuple(cycle.outcome.promises.values()), shares.memory),
            entitled,
            tuple(cycle.outcome.migrations),
            min(shares.again, next_clearing(standing, now), standing.plans.again),
        )


def decide(
    policy: Policy, view: View, now: float, memory: Memory, rules: Rules | None = None
) -> Decisions:
    """Run a single cycle. Pure."""
    return Cycle(policy, rules).decide(view, now, memory)


def kept(view: View, decided: Decisions) -> tuple[Kept, ...]:
    """Return the jobs without a decision, which keep running unchanged, and why."""
    changed = {decision.job for decision in decided.decisions}
    return tuple(Kept(s.number, _why_kept(s)) for s in view.jobs.values() if s.number not in changed)


def _queue(cycle: CycleState) -> None:
    """Trim, start gangs, let jobs borrow, and grow."""
    for state in cycle.view.jobs.values():
        changes = not cycle.untouched(state) or state.number in cycle.drained
        if state.reshaped and state.phase is Phase.RUNNING and not changes:
            _trim(cycle, state)
    for allocation in cycle.allocations.values():
        serve(cycle, allocation)
    cycle.turned_away.clear()  # borrowing may still work
    for allocation in cycle.allocations.values():
        borrow(cycle, allocation)
    taken = contested(cycle)
    for allocation in cycle.allocations.values():
        grow(cycle, allocation, taken)


def _trim(cycle: CycleState, state: JobState) -> None:
    """Take what a running job has above the maximum its user now asks for."""
    spare = excess(state, plan_for(state.job, state.job.workers.most))
    if spare:
        cycle.shrink(state, spare, Reason(Code.SHRUNK_ASKED))


def _compare(cycle: CycleState, *, explain: bool) -> tuple[Decision, ...]:
    """Return a decision for every job that changes or waits."""
    explainer = Explainer(cycle) if explain else None
    outcome, jobs = cycle.outcome, cycle.view.jobs
    changes = {*outcome.starts, *outcome.resizes, *outcome.moves, *outcome.stops}
    decisions = _replanned(cycle, changes)
    for number in sorted(changes.union(cycle.standing.waiting)):
        decision = _changed(cycle, jobs[number])
        if decision is None:
            state = jobs[number]
            reason = explainer.why_waiting(state) if explainer else _briefly(cycle, state)
            decision = Decision(Kind.WAIT, number, state.generation, reason)
        decisions.append(decision)
    return tuple(decisions)


def _briefly(cycle: CycleState, state: JobState) -> Reason:
    return _BRIEF[cycle.outcome.obstacles.get(state.number, Code.WAITING_POLICY)]


_BRIEF = {code: Reason(code) for code in Code}


def _changed(cycle: CycleState, state: JobState) -> Decision | None:
    outcome, number, following = cycle.outcome, state.number, state.generation + 1
    if number in outcome.stops:
        return Decision(Kind.PREEMPT, number, state.generation, outcome.stops[number])
    kinds = (
        (Kind.START, outcome.starts),
        (Kind.RESIZE, outcome.resizes),
        (Kind.MIGRATE, outcome.moves),
    )
    for kind, changes in kinds:
        if number in changes:
            change = changes[number]
            given = (change.reason, change.placement, change.batch)
            return Decision(kind, number, following, *given, _plan_for(cycle, state, change.placement))
    return None


def _plan_for(cycle: CycleState, state: JobState, placement: Placement) -> ChosenPlan | None:
    """Return how the tasks of a placement share the work, if enough is known of the training."""
    shape = cycle.shape_of(state)
    return None if shape is None else cycle.standing.plans.choose(state.job, shape, placement)


def _replanned(cycle: CycleState, changing: Collection[int]) -> list[Decision]:
    """Return the running jobs whose tasks stay and should share the work otherwise."""
    view, plans, found = cycle.view, cycle.standing.plans, []
    plans.again = inf
    for number in view.shapes:
        state = view.jobs.get(number)
        if state is None or state.phase is not Phase.RUNNING or number in changing:
            continue
        left = seconds_left(state, view.outlooks.get(number), cycle.now)
        plan = plans.better(state, view.shapes[number], left, cycle.now)
        if plan is not None:
            given = (state.generation, Reason(Code.REPLANNED))
            found.append(Decision(Kind.REPLAN, number, *given, plan=plan))
    return found


_CONTINUES, _AT_MOST, _CHANGING = (
    Reason(code) for code in (Code.CONTINUES, Code.AT_MOST, Code.CHANGING)
)


def _why_kept(state: JobState) -> Reason:
    if state.phase is not Phase.RUNNING or state.placement is None:
        return _CHANGING
    at_most = state.placement.count(Role.WORKER) >= state.job.workers.most
    return _AT_MOST if at_most else _CONTINUES
