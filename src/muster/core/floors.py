"""Steps 3 to 5 for the waiting: each gang in order is planned, placed and committed, or makes room.

A job that does not fit is helped in this order, each only if the one before did not do:
reclaim (shrink growth, preempt borrowers), migrate small jobs, and, after long waiting, a promise on
the devices that come free first. Whatever is on its way to it is withheld from those behind it.
"""

from muster.core.desk import Desk
from muster.core.options import Option
from muster.core.reclaim import reclaim
from muster.core.room import migrate, reserve
from muster.model.cluster import NodeState
from muster.model.decision import Promise
from muster.model.job import Job
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.policy.base import Allocation


def keep_promises(desk: Desk, promises: tuple[Promise, ...]) -> None:
    """Withhold what earlier cycles promised, where the promise still makes sense."""
    for promise in promises:
        state = desk.view.jobs.get(promise.job)
        if state and state.phase is Phase.WAITING and _still_good(desk, promise):
            desk.withhold(promise)


def serve(desk: Desk, allocation: Allocation) -> None:
    """Start the job's gang, or note what stops it and try to make room."""
    state = desk.view.jobs[allocation.job]
    if state.phase is not Phase.WAITING:
        return
    promise = desk.outcome.promises.get(state.name)
    desk.release(state.name)
    placement, obstacle = find(desk, state.job, allocation.least)
    if placement is not None:
        code = Code.STARTED_PROMISED if promise else Code.STARTED
        desk.start(state.job, placement, Reason(code))
    elif promise and (obstacle is Code.WAITING_DEVICES or promise.cause is Code.WAITING_RECLAIM):
        desk.promise(state.job, promise)
        desk.outcome.obstacles[state.name] = promise.cause
    else:
        desk.outcome.promises.pop(state.name, None)
        _make_room(desk, state, allocation, obstacle)


def borrow(desk: Desk, allocation: Allocation) -> None:
    """Start a preemptible gang on idle devices beyond its pool's entitlement."""
    job = desk.view.jobs[allocation.job].job
    if desk.outcome.obstacles.get(job.name) is not Code.WAITING_QUOTA or not job.preemptible:
        return
    placement, obstacle = find(desk, job, allocation.least, borrow=True)
    if placement is not None:
        del desk.outcome.obstacles[job.name]
        desk.start(job, placement, Reason(Code.STARTED_BORROWING))
    elif obstacle is Code.WAITING_LIMIT:
        desk.outcome.obstacles[job.name] = obstacle


def find(desk: Desk, job: Job, workers: int, *, borrow: bool = False) -> tuple[Placement | None, Code]:
    """A place on the first option that has one; else the obstacle on the most hopeful option."""
    found = []
    for option in desk.options(job):
        placement, obstacle = _on_option(desk, job, workers, option, borrow=borrow)
        if placement is not None:
            return placement, Code.STARTED
        found.append(obstacle)
    return None, min(found, key=_HOPE.index, default=Code.WAITING_DEVICES)


_HOPE = [Code.WAITING_DEVICES, Code.WAITING_QUOTA, Code.WAITING_RESERVATION, Code.WAITING_LIMIT]
"""Obstacles, the one soonest overcome first."""


def _on_option(
    desk: Desk, job: Job, workers: int, option: Option, *, borrow: bool
) -> tuple[Placement | None, Code]:
    request = desk.request(job, workers, option)
    types = desk.types(option)
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


def _make_room(desk: Desk, state: JobState, allocation: Allocation, obstacle: Code) -> None:
    desk.outcome.obstacles[state.name] = obstacle
    if _backfill(desk, state.job, allocation.least):
        del desk.outcome.obstacles[state.name]
        return
    attempts = (reclaim, migrate, reserve) if obstacle is Code.WAITING_DEVICES else (reclaim,)
    for attempt in attempts:
        promise = attempt(desk, state, allocation.least)
        if promise is not None:
            desk.promise(state.job, promise)
            desk.outcome.obstacles[state.name] = promise.cause
            return
    if obstacle is not Code.WAITING_DEVICES:
        _earmark(desk, state, allocation.least)


def _earmark(desk: Desk, state: JobState, workers: int) -> None:
    """After long waiting for its own pool, keep younger jobs of the pool from passing for ever."""
    option = desk.options(state.job)[0]
    types = desk.types(option)
    if desk.now - state.submitted >= desk.rules.patience and len(types) == 1:
        devices = desk.request(state.job, workers, option).plan.devices
        desk.books.earmark(state.job, {types[0]: devices})


def _backfill(desk: Desk, job: Job, workers: int) -> bool:
    """Use devices promised to older jobs, if the job ends before those should come free."""
    if job.duration is None:
        return False
    end = desk.now + job.duration
    lenders = [
        promise.job
        for promise in desk.outcome.promises.values()
        if promise.expected is not None and end <= promise.expected
    ]
    if not lenders:
        return False
    for name in lenders:
        desk.release(name)
    placement, _ = find(desk, job, workers)
    if placement is not None:
        desk.start(job, placement, Reason(Code.STARTED_BACKFILLED, beneficiary=lenders[0]))
    for name in lenders:
        desk.retain(name)
    return placement is not None


def _still_good(desk: Desk, promise: Promise) -> bool:
    cluster = desk.view.cluster
    up = all(
        name in cluster.index and cluster.node(name).state is NodeState.UP
        for name in promise.placement.nodes()
    )
    return up and desk.now < promise.until
