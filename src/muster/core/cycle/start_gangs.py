"""Steps 3 to 5 for waiting jobs: each gang in order is planned, placed and committed, or makes room.

For a gang that does not fit, the first of these that works: reclaim (shrink growth, preempt borrowers),
migrate small jobs, evict what is not reserved (for a gang within its reservation), and, after a long
wait, promise the devices that come free first. What is on its way to it is withheld from those behind.
Once all have been served, jobs beyond their entitlement get what is still idle.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from math import inf

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.make_room import migrate, reserve
from muster.core.cycle.moves.undisturbed import undisturbed
from muster.core.cycle.steering.reclaim import evict, reclaim
from muster.model.cluster import NodeState
from muster.model.decision import Promise
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.request import Request
from muster.planner.counts import plan_for
from muster.policy.base import Allocation

Attempt = Callable[[CycleState, JobState, int], Promise | None]
"""A way to make room for a waiting job with this number of workers."""


def keep_promises(cycle: CycleState, promises: tuple[Promise, ...]) -> None:
    """Withhold what earlier cycles promised, where that is still useful."""
    for promise in promises:
        state = cycle.view.jobs.get(promise.job)
        allocation = cycle.allocations.get(promise.job)
        if state is None or allocation is None or state.phase is not Phase.WAITING:
            continue
        if _still_asked(state.job, allocation, promise) and _still_good(cycle, promise):
            cycle.withhold(promise)


def respect_promises(cycle: CycleState, promises: tuple[Promise, ...], pools: Collection[str]) -> None:
    """Withhold what was promised to jobs of other pools than these: their planners judge it."""
    for promise in promises:
        state = cycle.view.jobs.get(promise.job)
        if state is None or state.phase is not Phase.WAITING or state.job.pool in pools:
            continue
        if _still_good(cycle, promise):
            cycle.promise(promise)


def serve(cycle: CycleState, allocation: Allocation) -> None:
    """Start the job's gang, or record what stops it and try to make room."""
    state = cycle.view.jobs[allocation.job]
    if state.phase is not Phase.WAITING:
        return
    promise = cycle.outcome.promises.get(state.number)
    likes = cycle.likes(state.job, allocation.least)
    if promise is None and likes in cycle.turned_away:
        cycle.outcome.obstacles[state.number] = cycle.turned_away[likes]
        return
    cycle.unserved.pop(state.number, None)
    cycle.release(state.number)
    with cycle.without_promises(_yielding(cycle, state.job)):
        placement, obstacle = find(cycle, state.job, allocation.least)
        better = undisturbed(cycle, state, placement) if placement else None
        if better is not None:
            cycle.promise(better)
            cycle.outcome.obstacles[state.number] = better.cause
        elif placement is not None:
            code = Code.STARTED_PROMISED if promise else Code.STARTED
            cycle.start(state.job, placement, Reason(code))
        elif promise and _paid_for(promise, obstacle):
            cycle.promise(_ageing(cycle, promise))
            cycle.outcome.obstacles[state.number] = promise.cause
        else:
            _make_room(cycle, state, allocation, obstacle)
    outcome = cycle.outcome
    if state.number not in outcome.starts and state.number not in outcome.promises:
        cycle.turned_away[likes] = outcome.obstacles[state.number]


def borrow(cycle: CycleState, allocation: Allocation) -> None:
    """Start a preemptible gang on idle devices beyond its pool's entitlement."""
    job = cycle.view.jobs[allocation.job].job
    blocked = cycle.outcome.obstacles.get(job.number)
    if blocked not in (Code.WAITING_QUOTA, Code.WAITING_DEVICES) or not job.preemptible:
        return
    promised = job.number in cycle.outcome.promises
    likes = cycle.likes(job, allocation.least)
    if not promised and likes in cycle.turned_away:
        return
    cycle.release(job.number)
    placement, obstacle = find(cycle, job, allocation.least, borrow=True)
    if placement is not None:
        del cycle.outcome.obstacles[job.number]
        cycle.start(job, placement, Reason(Code.STARTED_BORROWING))
        return
    if promised:
        cycle.retain(job.number)
    else:
        cycle.turned_away[likes] = obstacle
    if obstacle in (Code.WAITING_LIMIT, Code.WAITING_USER_LIMIT):
        cycle.outcome.obstacles[job.number] = obstacle


def find(
    cycle: CycleState, job: Job, workers: int, *, borrow: bool = False
) -> tuple[Placement | None, Code]:
    """Return a placement on the first option that has one, or the obstacle soonest overcome."""
    found = []
    for option in dict.fromkeys((*cycle.options.of(job), *cycle.options.pure(job))):
        request = cycle.options.request(job, workers, option)
        placement, obstacle = place_on(cycle, job, request, borrow=borrow)
        if placement is not None:
            return placement, Code.STARTED
        found.append(obstacle)
    return None, min(found, key=_HOPE.index, default=Code.WAITING_DEVICES)


_HOPE = [
    Code.WAITING_DEVICES,
    Code.WAITING_QUOTA,
    Code.WAITING_RESERVATION,
    Code.WAITING_USER_LIMIT,
    Code.WAITING_LIMIT,
]
"""Obstacles, soonest overcome first."""


def place_on(
    cycle: CycleState, job: Job, request: Request, *, borrow: bool
) -> tuple[Placement | None, Code]:
    """Return a placement that the quotas allow, or the obstacle."""
    types = cycle.options.types(request.kinds)
    if len(types) == 1 and request.plan.devices:
        obstacle = cycle.quotas.verdict(job, {types[0]: request.plan.devices}, borrow=borrow)
        if obstacle is not None:
            return None, obstacle
    placement = cycle.place(job, request)
    if placement is None:
        return None, Code.WAITING_DEVICES
    if len(types) > 1:
        # Only now are the devices of each type known.
        obstacle = cycle.quotas.verdict(job, cycle.amounts(placement.slots), borrow=borrow)
        if obstacle is not None:
            return None, obstacle
    return placement, Code.STARTED


def _yielding(cycle: CycleState, job: Job) -> list[int]:
    """Return the jobs behind this one whose promises do not bind it: those that cost nobody
    anything, and those of its own pool."""
    return [
        number
        for number, promise in cycle.unserved.items()
        if promise.cause is Code.WAITING_DEVICES or cycle.view.jobs[number].job.pool == job.pool
    ]


def _paid_for(promise: Promise, obstacle: Code) -> bool:
    """Whether other jobs gave way for the promise: it is kept while it can still help."""
    if promise.cause is Code.WAITING_DEVICES:
        return False
    return obstacle is Code.WAITING_DEVICES or promise.cause is Code.WAITING_RECLAIM


def _ageing(cycle: CycleState, promise: Promise) -> Promise:
    """Let a promise lapse after a while if everything came free and it still does not help."""
    if promise.until < inf or _is_coming(cycle, promise):
        return promise
    return replace(promise, until=cycle.now + 2 * cycle.rules.grace)


def _make_room(cycle: CycleState, state: JobState, allocation: Allocation, obstacle: Code) -> None:
    cycle.outcome.obstacles[state.number] = obstacle
    if _backfill(cycle, state.job, allocation.least):
        del cycle.outcome.obstacles[state.number]
        return
    for attempt in _attempts(cycle, state.job, allocation.least, obstacle):
        promise = attempt(cycle, state, allocation.least)
        if promise is not None:
            cycle.promise(promise)
            cycle.outcome.obstacles[state.number] = promise.cause
            return
    cycle.outcome.promises.pop(state.number, None)
    if obstacle is not Code.WAITING_DEVICES:
        _earmark(cycle, state, allocation.least, fixed=obstacle is Code.WAITING_RESERVATION)


def _attempts(cycle: CycleState, job: Job, workers: int, obstacle: Code) -> tuple[Attempt, ...]:
    if job.preemptible and find(cycle, job, workers, borrow=True)[0] is not None:
        return ()  # it will borrow idle devices once all are served
    if obstacle is Code.WAITING_DEVICES:
        return (reclaim, migrate, evict, reserve)
    return (reclaim,)


def _earmark(cycle: CycleState, state: JobState, workers: int, *, fixed: bool) -> None:
    """After a long wait for its own pool, keep younger jobs of the pool from passing for ever."""
    if cycle.now - state.submitted < cycle.rules.patience:
        return
    for option in cycle.options.pure(state.job)[:1]:
        devices = cycle.options.request(state.job, workers, option).plan.devices
        cycle.quotas.earmark(
            state.job, dict.fromkeys(cycle.options.types(option), devices), fixed=fixed
        )


def _backfill(cycle: CycleState, job: Job, workers: int) -> bool:
    """Use devices promised to older jobs, if this job ends before they come free."""
    if job.duration is None:
        return False
    end = cycle.now + job.duration
    lenders = {
        promise.job: promise
        for promise in cycle.outcome.promises.values()
        if promise.expected is not None and end <= promise.expected and promise.job != job.number
    }
    if not lenders:
        return False
    with cycle.without_promises(lenders):
        placement, _ = find(cycle, job, workers)
        if placement is not None:
            nodes = placement.nodes()
            used = [n for n, p in lenders.items() if not nodes.isdisjoint(p.placement.nodes())]
            lender = cycle.view.jobs[next(iter(used or lenders))].job
            reason = Reason(Code.STARTED_BACKFILLED, beneficiary=lender.name, served=lender.number)
            cycle.start(job, placement, reason)
    return placement is not None


def _still_asked(job: Job, allocation: Allocation, promise: Promise) -> bool:
    """Whether the promise fits the current request: the job may have been reshaped since."""
    plan = plan_for(job, allocation.least)
    needs = {part.role: part.need for part in plan.parts}
    alike = all(slot.need == needs.get(slot.role) for slot in promise.placement.slots)
    return alike and all(promise.placement.count(part.role) == part.count for part in plan.parts)


def _still_good(cycle: CycleState, promise: Promise) -> bool:
    cluster = cycle.view.cluster
    for name in promise.placement.nodes():
        if name not in cluster.index or cluster.node(name).state is not NodeState.UP:
            return False
    return cycle.now < promise.until or _is_coming(cycle, promise)


def _is_coming(cycle: CycleState, promise: Promise) -> bool:
    """Whether promised devices are about to come free."""
    leaving = cycle.leaving_bits
    return any(bits & leaving.get(node, 0) for node, bits in promise.placement.bits().items())
