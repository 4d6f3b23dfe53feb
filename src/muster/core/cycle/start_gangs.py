"""Steps 3 to 5 for the waiting: each gang in order is planned, placed and committed, or makes room.

A job that does not fit is helped in this order, each only if the one before did not do:
reclaim (shrink growth, preempt borrowers), migrate small jobs, evict what is not reserved from where
the gang must be by right, and, after long waiting, a promise on the devices that come free first.
Whatever is on its way to it is withheld from those behind it.
Only when all have been served do those beyond their entitlement get what is still idle.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf

from muster.core.cycle.cycle_state import Desk
from muster.core.cycle.make_room import migrate, reserve
from muster.core.cycle.reclaim import evict, reclaim
from muster.model.cluster import NodeState
from muster.model.decision import Promise
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.request import Request
from muster.planner.counts import plan_for
from muster.policy.base import Allocation

Attempt = Callable[[Desk, JobState, int], Promise | None]
"""A way to make room for a waiting job with so many workers."""


def keep_promises(desk: Desk, promises: tuple[Promise, ...]) -> None:
    """Withhold what earlier cycles promised, where the promise still makes sense."""
    for promise in promises:
        state = desk.view.jobs.get(promise.job)
        allocation = desk.allocations.get(promise.job)
        if state is None or allocation is None or state.phase is not Phase.WAITING:
            continue
        if _still_asked(state.job, allocation, promise) and _still_good(desk, promise):
            desk.withhold(promise)


def serve(desk: Desk, allocation: Allocation) -> None:
    """Start the job's gang, or note what stops it and try to make room."""
    state = desk.view.jobs[allocation.job]
    if state.phase is not Phase.WAITING:
        return
    promise = desk.outcome.promises.get(state.number)
    likes = desk.likes(state.job, allocation.least)
    if promise is None and likes in desk.turned_away:
        desk.outcome.obstacles[state.number] = desk.turned_away[likes]
        return
    desk.unserved.pop(state.number, None)
    desk.release(state.number)
    with _juniors_yield(desk, state.job):
        placement, obstacle = find(desk, state.job, allocation.least)
        if placement is not None:
            code = Code.STARTED_PROMISED if promise else Code.STARTED
            desk.start(state.job, placement, Reason(code))
        elif promise and _paid_for(promise, obstacle):
            desk.promise(_ageing(desk, promise))
            desk.outcome.obstacles[state.number] = promise.cause
        else:
            _make_room(desk, state, allocation, obstacle)
    outcome = desk.outcome
    if state.number not in outcome.starts and state.number not in outcome.promises:
        desk.turned_away[likes] = outcome.obstacles[state.number]


def borrow(desk: Desk, allocation: Allocation) -> None:
    """Start a preemptible gang on idle devices beyond its pool's entitlement."""
    job = desk.view.jobs[allocation.job].job
    blocked = desk.outcome.obstacles.get(job.number)
    if blocked not in (Code.WAITING_QUOTA, Code.WAITING_DEVICES) or not job.preemptible:
        return
    promised = job.number in desk.outcome.promises
    likes = desk.likes(job, allocation.least)
    if not promised and likes in desk.turned_away:
        return
    desk.release(job.number)
    placement, obstacle = find(desk, job, allocation.least, borrow=True)
    if placement is not None:
        del desk.outcome.obstacles[job.number]
        desk.start(job, placement, Reason(Code.STARTED_BORROWING))
        return
    if promised:
        desk.retain(job.number)
    else:
        desk.turned_away[likes] = obstacle
    if obstacle is Code.WAITING_LIMIT:
        desk.outcome.obstacles[job.number] = obstacle


def find(desk: Desk, job: Job, workers: int, *, borrow: bool = False) -> tuple[Placement | None, Code]:
    """A place on the first option that has one; else the obstacle on the most hopeful option."""
    found = []
    for option in dict.fromkeys((*desk.menu.options(job), *desk.menu.pure_options(job))):
        request = desk.menu.request(job, workers, option)
        placement, obstacle = place_on(desk, job, request, borrow=borrow)
        if placement is not None:
            return placement, Code.STARTED
        found.append(obstacle)
    return None, min(found, key=_HOPE.index, default=Code.WAITING_DEVICES)


_HOPE = [Code.WAITING_DEVICES, Code.WAITING_QUOTA, Code.WAITING_RESERVATION, Code.WAITING_LIMIT]
"""Obstacles, the one soonest overcome first."""


def place_on(desk: Desk, job: Job, request: Request, *, borrow: bool) -> tuple[Placement | None, Code]:
    """A place for the request that the books allow, or the obstacle."""
    types = desk.menu.types(request.kinds)
    if len(types) == 1 and request.plan.devices:
        obstacle = desk.books.verdict(job, {types[0]: request.plan.devices}, borrow=borrow)
        if obstacle is not None:
            return None, obstacle
    placement = desk.place(job, request)
    if placement is None:
        return None, Code.WAITING_DEVICES
    if len(types) > 1:
        # Only now is it known how many of each type: the books have the last word.
        obstacle = desk.books.verdict(job, desk.amounts(placement.slots), borrow=borrow)
        if obstacle is not None:
            return None, obstacle
    return placement, Code.STARTED


@contextmanager
def _juniors_yield(desk: Desk, job: Job) -> Iterator[None]:
    """Promises to jobs behind this one do not bind it if they cost nobody anything, or if they are
    of its own pool, whose devices are the pool's before they are one job's."""
    jobs = desk.view.jobs
    yielding = [
        number
        for number, promise in desk.unserved.items()
        if promise.cause is Code.WAITING_DEVICES or jobs[number].job.pool == job.pool
    ]
    for number in yielding:
        desk.release(number)
    yield
    for number in yielding:
        desk.retain(number)


def _paid_for(promise: Promise, obstacle: Code) -> bool:
    """Whether others have given way for the promise, so that it stands while it can still help."""
    if promise.cause is Code.WAITING_DEVICES:
        return False
    return obstacle is Code.WAITING_DEVICES or promise.cause is Code.WAITING_RECLAIM


def _ageing(desk: Desk, promise: Promise) -> Promise:
    """Once all that was to come free has, a promise that still does not help lapses after a while."""
    if promise.until < inf or _is_coming(desk, promise):
        return promise
    return replace(promise, until=desk.now + 2 * desk.rules.grace)


def _make_room(desk: Desk, state: JobState, allocation: Allocation, obstacle: Code) -> None:
    desk.outcome.obstacles[state.number] = obstacle
    if _backfill(desk, state.job, allocation.least):
        del desk.outcome.obstacles[state.number]
        return
    for attempt in _attempts(desk, state.job, allocation.least, obstacle):
        promise = attempt(desk, state, allocation.least)
        if promise is not None:
            desk.promise(promise)
            desk.outcome.obstacles[state.number] = promise.cause
            return
    desk.outcome.promises.pop(state.number, None)
    if obstacle is not Code.WAITING_DEVICES:
        _earmark(desk, state, allocation.least, fixed=obstacle is Code.WAITING_RESERVATION)


def _attempts(desk: Desk, job: Job, workers: int, obstacle: Code) -> tuple[Attempt, ...]:
    if job.preemptible and find(desk, job, workers, borrow=True)[0] is not None:
        return ()  # nobody need give way: once all are served it borrows what is idle
    if obstacle is Code.WAITING_DEVICES:
        return (reclaim, migrate, evict, reserve)
    return (reclaim,)


def _earmark(desk: Desk, state: JobState, workers: int, *, fixed: bool) -> None:
    """After long waiting for its own pool, keep younger jobs of the pool from passing for ever."""
    if desk.now - state.submitted < desk.rules.patience:
        return
    for option in desk.menu.pure_options(state.job)[:1]:
        devices = desk.menu.request(state.job, workers, option).plan.devices
        desk.books.earmark(state.job, dict.fromkeys(desk.menu.types(option), devices), fixed=fixed)


def _backfill(desk: Desk, job: Job, workers: int) -> bool:
    """Use devices promised to older jobs, if the job ends before those should come free."""
    if job.duration is None:
        return False
    end = desk.now + job.duration
    lenders = {
        promise.job: promise
        for promise in desk.outcome.promises.values()
        if promise.expected is not None and end <= promise.expected and promise.job != job.number
    }
    if not lenders:
        return False
    for number in lenders:
        desk.release(number)
    placement, _ = find(desk, job, workers)
    if placement is not None:
        used = [number for number, p in lenders.items() if _share_nodes(p.placement, placement)]
        lender = desk.view.jobs[next(iter(used or lenders))].job.name
        desk.start(job, placement, Reason(Code.STARTED_BACKFILLED, beneficiary=lender))
    for number in lenders:
        desk.retain(number)
    return placement is not None


def _share_nodes(one: Placement, other: Placement) -> bool:
    return not one.nodes().isdisjoint(other.nodes())


def _still_asked(job: Job, allocation: Allocation, promise: Promise) -> bool:
    """Whether the promise has the shape that would start now: the job may have been reshaped since."""
    plan = plan_for(job, allocation.least)
    needs = {part.role: part.need for part in plan.parts}
    alike = all(slot.need == needs.get(slot.role) for slot in promise.placement.slots)
    return alike and all(promise.placement.count(part.role) == part.count for part in plan.parts)


def _still_good(desk: Desk, promise: Promise) -> bool:
    cluster = desk.view.cluster
    for name in promise.placement.nodes():
        if name not in cluster.index or cluster.node(name).state is not NodeState.UP:
            return False
    return desk.now < promise.until or _is_coming(desk, promise)


def _is_coming(desk: Desk, promise: Promise) -> bool:
    """Whether somebody is about to let go of devices that the promise is about."""
    leaving = desk.leaving_bits()
    return any(bits & leaving.get(node, 0) for node, bits in promise.placement.bits().items())
