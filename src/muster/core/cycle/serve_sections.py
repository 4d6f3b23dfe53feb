"""Steps 3 to 5 for all policies of a cycle, which claim from one ledger.

Within entitlements first: policies that steer let go and take, policies that queue start gangs. A gang
that does not fit takes back what pools of other policies use beyond their entitlement: one that queues
always may, one that is steered has to where its own policy cannot shrink the borrower. What is idle
after that is lent.
"""

from collections.abc import Collection

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.rearrange import excess
from muster.core.cycle.sections import SectionShares
from muster.core.cycle.start_gangs import borrow, serve
from muster.core.cycle.steering.growth import contested, grow
from muster.core.cycle.steering.reclaim import evict, reclaim
from muster.core.cycle.steering.steer import lend_idle, steer
from muster.model.decision import Promise
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.planner.counts import plan_for
from muster.policy.base import Allocation


def serve_sections(cycle: CycleState, shares: Collection[SectionShares]) -> None:
    """Carry out what the policies want, as far as possible now."""
    if not shares:
        return
    cycle.steered = {a.job: a for share in shares if share.steers for a in share.allocations}
    cycle.queued = {a.job: a for share in shares if not share.steers for a in share.allocations}
    queueing = [share.pools for share in shares if not share.steers]
    pools = frozenset[str]().union(*(share.pools for share in shares))
    straddling = [each for share in shares for each in share.gangs]
    for each in straddling:
        serve(cycle, each)
    if len(queueing) < len(shares):
        steer(cycle)
    if queueing:
        _start_gangs(cycle, frozenset().union(*queueing))
    if len(shares) > 1 or len(pools) < len(cycle.view.pools.leaves()):
        _take_back_lent(cycle)
    cycle.gangs = dict(cycle.outcome.starts)
    if len(queueing) < len(shares):
        lend_idle(cycle)
    if queueing or straddling:
        _use_idle(cycle, straddling)


def _start_gangs(cycle: CycleState, pools: frozenset[str]) -> None:
    """Trim the jobs of policies that queue, and start their gangs."""
    for state in cycle.view.jobs.values():
        if not state.reshaped or state.phase is not Phase.RUNNING or state.job.pool not in pools:
            continue
        if cycle.untouched(state) and state.number not in cycle.settled:
            _trim(cycle, state)
    for allocation in cycle.queued.values():
        serve(cycle, allocation)


def _use_idle(cycle: CycleState, straddling: Collection[Allocation]) -> None:
    """Let gangs that queue borrow, and grow."""
    cycle.turned_away.clear()  # borrowing may still work
    for allocation in (*straddling, *cycle.queued.values()):
        borrow(cycle, allocation)
    taken = contested(cycle)
    for allocation in cycle.queued.values():
        grow(cycle, allocation, taken)


def _trim(cycle: CycleState, state: JobState) -> None:
    """Take what a running job has above the maximum its user now asks for."""
    spare = excess(state, plan_for(state.job, state.job.workers.most))
    if spare:
        cycle.shrink(state, spare, Reason(Code.SHRUNK_ASKED))


def _take_back_lent(cycle: CycleState) -> None:
    """Let steered gangs that have no room take back what pools of other policies have borrowed."""
    outcome = cycle.outcome
    for allocation in cycle.steered.values():
        number = allocation.job
        served = number in outcome.starts or number in outcome.promises or not allocation.most
        if served or outcome.obstacles.get(number) is not Code.WAITING_DEVICES:
            continue
        promise = _cleared(cycle, cycle.view.jobs[number], allocation)
        if promise is not None:
            cycle.promise(promise)
            outcome.obstacles[number] = promise.cause


def _cleared(cycle: CycleState, state: JobState, allocation: Allocation) -> Promise | None:
    for workers in dict.fromkeys((allocation.most, state.job.workers.gang)):
        for attempt in (reclaim, evict):
            promise = attempt(cycle, state, workers)
            if promise is not None:
                return promise
    return None
