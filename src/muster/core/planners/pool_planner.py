"""One planner: the cycle of some pools, on a view of its own."""

from collections.abc import Iterator
from dataclasses import replace

from muster.core.cycle.compare import changed_decision, gang_decision, waiting_reason
from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.sections import Section, Sections, SectionShares, allocate, narrowed
from muster.core.cycle.serve_sections import serve_sections
from muster.core.cycle.standing import Standing
from muster.core.cycle.start_gangs import keep_promises, respect_promises
from muster.core.cycle.steering.staff_servers import staff_servers
from muster.core.planners.proposal import PlanningRequest, Proposal
from muster.core.why.explain import Explainer
from muster.model.decision import Decision, Kind
from muster.model.view import View
from muster.policy.base import Policy


class PoolPlanner:
    """Proposes, cycle by cycle, what to do with the jobs of some pools."""

    def __init__(self, policy: Policy, rules: Rules | None = None, *, explain: bool = True) -> None:
        """`policy`: of pools without their own."""
        self._sections = Sections(policy)
        self._rules = rules or Rules()
        self._explain = explain
        self._standing: Standing | None = None
        self._memories: dict[str, object] = {}
        """What its policies remember, by name."""

    def propose(self, view: View, asked: PlanningRequest) -> Proposal:
        """Decide about the jobs of the pools asked for, as if all free devices were theirs."""
        standing, self._standing = self._standing, None
        if standing is None:
            standing = Standing(view)
        else:
            standing.follow(view)
        sections = self._own(view, asked.pools)
        shares = tuple(allocate(sections, view, asked.entitled, asked.now, self._memories))
        wanted = [each for share in shares for each in (*share.allocations, *share.gangs)]
        cycle = CycleState(standing, asked.entitled, wanted, asked.now, asked.mood, self._rules)
        keep_promises(cycle, asked.promises)
        respect_promises(cycle, asked.promises, asked.pools)
        serve_sections(cycle, shares)
        staff_servers(cycle)
        proposal = self._proposal(cycle, shares, asked.pools)
        cycle.close()
        self._memories = {share.policy: share.memory for share in shares}
        self._standing = standing
        return proposal

    def _own(self, view: View, pools: frozenset[str]) -> tuple[Section, ...]:
        return tuple(narrowed(self._sections.of(view.pools), pools, ()))

    def _proposal(
        self, cycle: CycleState, shares: tuple[SectionShares, ...], pools: frozenset[str]
    ) -> Proposal:
        outcome = cycle.outcome
        explainer = Explainer(cycle, pools, shares) if self._explain else None
        return Proposal(
            tuple(replace(share, memory=None, merits=None) for share in shares),
            (*_changes(cycle, pools, explainer), *_waits(cycle, pools, explainer)),
            tuple(_growths(cycle, pools, explainer)),
            tuple(p for p in outcome.promises.values() if _pool(cycle, p.job) in pools),
            tuple(outcome.migrations),
        )


def _waits(cycle: CycleState, pools: frozenset[str], explainer: Explainer | None) -> Iterator[Decision]:
    """Yield why the others of its pools wait."""
    for number in cycle.standing.waiting:
        state = cycle.view.jobs[number]
        if number not in cycle.outcome.starts and state.job.pool in pools:
            reason = waiting_reason(cycle, state, explainer)
            yield Decision(Kind.WAIT, number, state.generation, reason)


def _changes(
    cycle: CycleState, pools: frozenset[str], explainer: Explainer | None
) -> Iterator[Decision]:
    """Yield the changes of jobs of its pools, and of others that give way to one of these."""
    outcome = cycle.outcome
    for number in (*outcome.starts, *outcome.resizes, *outcome.moves, *outcome.stops):
        state = cycle.view.jobs[number]
        grows = gang_decision(cycle, state) if number in outcome.starts else None
        decision = grows or changed_decision(cycle, state, explainer)
        assert decision is not None
        served = decision.reason.served
        if _pool(cycle, number) in pools or (served and _pool(cycle, served) in pools):
            yield decision


def _growths(
    cycle: CycleState, pools: frozenset[str], explainer: Explainer | None
) -> Iterator[Decision]:
    """Yield the starts of its pools that use more than their gang of what is idle."""
    for number in cycle.gangs:
        state = cycle.view.jobs[number]
        if state.job.pool in pools and gang_decision(cycle, state) is not None:
            decision = changed_decision(cycle, state, explainer)
            assert decision is not None
            yield decision


def _pool(cycle: CycleState, number: int) -> str:
    state = cycle.view.jobs.get(number)
    return "" if state is None else state.job.pool
