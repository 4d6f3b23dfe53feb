"""The cycle: from a frozen view to a decision with a reason for every job."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from math import inf

from muster.core.cycle.compare import changed_decision, waiting_reason
from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.moves.apart import part_neighbours
from muster.core.cycle.moves.drain import drain, next_clearing
from muster.core.cycle.moves.off_slow import leave_slow_links
from muster.core.cycle.outcome import MigrationReport
from muster.core.cycle.plans import seconds_left
from muster.core.cycle.rest import RESTS, may_rest, nothing_new
from muster.core.cycle.sections import Section, Sections, SectionShares, allocate, narrowed
from muster.core.cycle.serve_sections import serve_sections
from muster.core.cycle.standing import Standing
from muster.core.cycle.start_gangs import keep_promises
from muster.core.cycle.steering.staff_servers import staff_servers
from muster.core.cycle.steering.wanted import is_unmet
from muster.core.planners.approve import Approval, ApprovalReport
from muster.core.planners.proposal import CycleQuestion, Planners, Proposal
from muster.core.quotas.pools import entitle
from muster.core.why.explain import Explainer
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
    """What the cluster's policy remembers."""
    others: Mapping[str, object] = field(default_factory=dict)
    """What the policies of pools with their own remember, by name."""
    looked: float | None = None
    """When no job was found that could be moved away from its neighbours; None: one was."""


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
    order: tuple[int, ...] = ()
    """Jobs that the policy gives workers, the most urgent first, then as it ranks those that wait."""
    approved: ApprovalReport | None = None
    """How many claims of planners were approved; None: there are no planners."""
    asks: bool = False
    """Whether policies ask for every cycle that they need; else there is one every so often while jobs
    wait, and one whenever devices come free."""
    unmet: bool = True
    """Whether somebody may take what comes free by these decisions; else it needs no cycle."""


class Cycle:
    """Decides repeatedly on one cluster. What it keeps between views only saves time."""

    def __init__(
        self,
        policy: Policy,
        rules: Rules | None = None,
        *,
        explain: bool = True,
        planners: Planners | None = None,
    ) -> None:
        """`policy`: of pools without their own; `planners`: who plan for pools beside each other."""
        self._policy = policy
        self._sections = Sections(policy)
        self._rules = rules or Rules()
        self._explain = explain
        """Whether waiting jobs get the full reason, or only its code."""
        self._planners = planners
        self._standing: Standing | None = None
        self._idle: tuple[View, float, Decisions] | None = None
        """The last cycle, if it had nothing to do."""

    def decide(self, view: View, now: float, memory: Memory) -> Decisions:
        """Decide about all jobs. Deterministic; the view is not changed."""
        rests = self._rested(view, now, memory)
        if rests is not None:
            return rests
        self._idle = None
        # After an exception below, a half-updated standing must not be reused.
        standing, self._standing = self._standing, None
        if standing is None:
            standing = Standing(view)
        else:
            standing.follow(view)
        decided = self._decide(standing, now, memory)
        self._standing = standing
        idle = all(each.kind is Kind.WAIT for each in decided.decisions)
        if idle and not decided.memory.promises and may_rest(view):
            self._idle = view, now, decided
        return decided

    def _rested(self, view: View, now: float, memory: Memory) -> Decisions | None:
        """Return the last answer if nothing has happened that could change it (see `rest`)."""
        if self._idle is None:
            return None
        seen, then, decided = self._idle
        early = then <= now < min(then + RESTS, decided.again)
        if memory is not decided.memory or not early or not nothing_new(seen, view, now - then):
            return None
        return replace(decided, version=view.version)

    def _decide(self, standing: Standing, now: float, memory: Memory) -> Decisions:
        view = standing.view
        # 1 entitle: how much each pool may use now
        entitled = entitle(view.pools, standing.available, standing.demands(memory.promises))
        # 2 allocate: workers per job by the policy of its pool, most urgent first
        asked = CycleQuestion(view, now, entitled, memory.mood, memory.promises)
        proposals, here = self._proposals(asked)
        shares = tuple(allocate(here, view, entitled, now, self._memories(memory)))
        proposed = tuple(share for proposal in proposals for share in proposal.sections)
        told = (*shares, *proposed)
        wanted = [each for share in told for each in (*share.allocations, *share.gangs)]
        cycle = CycleState(standing, entitled, wanted, now, memory.mood, self._rules)
        # 3-5 plan, place, commit
        keep_promises(cycle, _planned_here(view, memory.promises, here))
        drain(cycle)
        approval = Approval(cycle, proposals)
        approval.plan_again()
        serve_sections(cycle, shares)
        approval.lend()
        staff_servers(cycle)
        leave_slow_links(cycle)
        looked = part_neighbours(cycle, memory.looked)
        # 6 compare with what runs now, with reasons
        explainer = Explainer(cycle, shares=shares) if self._explain else None
        decisions = _compare(cycle, approval.decisions, explainer)
        cycle.close()
        left_out = explainer.rivals.left_out() if explainer is not None else ()
        again = (share.again for share in (*shares, *proposed))
        asks = all(share.asks for share in (*shares, *proposed))
        return Decisions(
            view.version,
            decisions,
            self._remembered(cycle, shares, looked),
            entitled,
            (*approval.migrations, *cycle.outcome.migrations),
            min((*again, approval.again, next_clearing(standing, now), standing.plans.again)),
            tuple(dict.fromkeys((*(each.job for each in wanted if each.most), *left_out))),
            approval.told(),
            asks,
            not asks or bool(proposals) or is_unmet(cycle),
        )

    def _proposals(self, asked: CycleQuestion) -> tuple[tuple[Proposal, ...], tuple[Section, ...]]:
        """Return what planners propose, and the sections to plan here: those of no planner."""
        sections = self._sections.of(asked.view.pools)
        if self._planners is None:
            return (), sections
        proposals = tuple(self._planners.propose(asked))
        planned = frozenset[str]().union(*(proposal.pools for proposal in proposals))
        return proposals, tuple(narrowed(sections, asked.view.pools.leaves(), planned))

    def _memories(self, memory: Memory) -> dict[str, object]:
        return {**memory.others, self._policy.name: memory.policy}

    def _remembered(
        self, cycle: CycleState, shares: Collection[SectionShares], looked: float | None
    ) -> Memory:
        memories = {each.policy: each.memory for each in shares}
        own = memories.pop(self._policy.name, None)
        return Memory(cycle.mood, tuple(cycle.outcome.promises.values()), own, memories, looked)


def _planned_here(
    view: View, promises: tuple[Promise, ...], sections: Collection[Section]
) -> tuple[Promise, ...]:
    """Return the promises to jobs that no planner has decided about."""
    pools = frozenset[str]().union(*(section.pools for section in sections))
    if len(pools) == len(view.pools.leaves()):
        return promises
    jobs = view.jobs
    return tuple(each for each in promises if each.job in jobs and jobs[each.job].job.pool in pools)


def decide(
    policy: Policy, view: View, now: float, memory: Memory, rules: Rules | None = None
) -> Decisions:
    """Run a single cycle. Pure."""
    return Cycle(policy, rules).decide(view, now, memory)


def kept(view: View, decided: Decisions) -> tuple[Kept, ...]:
    """Return the jobs without a decision, which keep running unchanged, and why."""
    changed = {decision.job for decision in decided.decisions}
    return tuple(Kept(s.number, _why_kept(s)) for s in view.jobs.values() if s.number not in changed)


def _compare(
    cycle: CycleState, approved: Mapping[int, Decision], explainer: Explainer | None
) -> tuple[Decision, ...]:
    """Return a decision for every job that changes or waits; `approved`: as planners gave it."""
    outcome, jobs = cycle.outcome, cycle.view.jobs
    changes = {*outcome.starts, *outcome.resizes, *outcome.moves, *outcome.stops}
    decisions = _replanned(cycle, changes)
    for number in sorted(changes.union(cycle.standing.waiting)):
        decision = approved.get(number) or changed_decision(cycle, jobs[number], explainer)
        if decision is None:
            state = jobs[number]
            reason = waiting_reason(cycle, state, explainer)
            decision = Decision(Kind.WAIT, number, state.generation, reason)
        decisions.append(decision)
    return tuple(decisions)


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
