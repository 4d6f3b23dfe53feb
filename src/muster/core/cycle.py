"""The cycle: from a frozen view to one decision, with a reason, for every job."""

from dataclasses import dataclass, field

from muster.core.demand import capacity, demands
from muster.core.desk import Desk, Rules
from muster.core.explain import Explainer
from muster.core.floors import borrow, keep_promises, serve
from muster.core.growth import contested, grow
from muster.core.outcome import MigrationReport
from muster.core.pools import entitle
from muster.model.decision import Decision, Kept, Kind, Promise
from muster.model.job import Role
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase, View
from muster.place.adaptive import Mood
from muster.policy.base import Policy


@dataclass(frozen=True, slots=True)
class Memory:
    """What one cycle leaves for the next."""

    mood: Mood = field(default_factory=Mood)
    promises: tuple[Promise, ...] = ()
    policy: object = None


@dataclass(frozen=True, slots=True)
class Decisions:
    """The answer of one cycle, good for this version of the view and no other."""

    version: int
    decisions: tuple[Decision, ...]
    kept: tuple[Kept, ...]
    memory: Memory
    entitlements: Entitlements
    migrations: tuple[MigrationReport, ...] = ()


def decide(
    policy: Policy, view: View, now: float, memory: Memory, rules: Rules | None = None
) -> Decisions:
    """One pass over all jobs. Pure: equal arguments, equal decisions; the view stays as it is."""
    # 1 entitle: how much each pool may use now
    available = capacity(view.cluster)
    entitled = entitle(view.pools, available, demands(view, available))
    # 2 allocate: the policy says who gets how many workers, most urgent first
    shares = policy.allocate(view, entitled, now, memory.policy)
    desk = Desk(view, entitled, available, shares.allocations, now, memory.mood, rules or Rules())
    # 3-5 plan, place, commit: gangs first, then borrowers, then growth
    keep_promises(desk, memory.promises)
    for allocation in desk.allocations.values():
        serve(desk, allocation)
    for allocation in desk.allocations.values():
        borrow(desk, allocation)
    taken = contested(desk)
    for allocation in desk.allocations.values():
        grow(desk, allocation, taken)
    # 6 compare with what runs now, and say why
    return _compare(desk, entitled, shares.memory)


def _compare(desk: Desk, entitled: Entitlements, policy_memory: object) -> Decisions:
    explainer = Explainer(desk)
    decisions: list[Decision] = []
    kept: list[Kept] = []
    for state in desk.view.jobs.values():
        decision = _changed(desk, state)
        if decision is not None:
            decisions.append(decision)
        elif state.phase is Phase.WAITING:
            reason = explainer.why_waiting(state)
            decisions.append(Decision(Kind.WAIT, state.name, state.generation, reason))
        else:
            kept.append(Kept(state.name, _why_kept(state)))
    memory = Memory(desk.mood, tuple(desk.outcome.promises.values()), policy_memory)
    return Decisions(
        desk.view.version,
        tuple(decisions),
        tuple(kept),
        memory,
        entitled,
        tuple(desk.outcome.migrations),
    )


def _changed(desk: Desk, state: JobState) -> Decision | None:
    outcome, name, following = desk.outcome, state.name, state.generation + 1
    if name in outcome.stops:
        return Decision(Kind.PREEMPT, name, state.generation, outcome.stops[name])
    kinds = (
        (Kind.START, outcome.starts),
        (Kind.RESIZE, outcome.resizes),
        (Kind.MIGRATE, outcome.moves),
    )
    for kind, changes in kinds:
        if name in changes:
            change = changes[name]
            return Decision(kind, name, following, change.reason, change.placement)
    return None


_CONTINUES, _AT_MOST, _CHANGING = (
    Reason(code) for code in (Code.CONTINUES, Code.AT_MOST, Code.CHANGING)
)


def _why_kept(state: JobState) -> Reason:
    if state.phase is not Phase.RUNNING or state.placement is None:
        return _CHANGING
    at_most = state.placement.count(Role.WORKER) >= state.job.workers.most
    return _AT_MOST if at_most else _CONTINUES
