"""What is left lets jobs grow: in the policy's order, inside contract and quota.

Nobody grows into devices of a type that a waiting job could use: they would be asked back at once.
"""

from muster.core.desk import Desk
from muster.core.options import Option
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.contract import spanned
from muster.place.grow import grow as grow_beside
from muster.place.request import Request
from muster.planner.counts import plan_for
from muster.policy.base import Allocation

_NOT_FOR_ROOM = (Code.WAITING_LIMIT, Code.WAITING_RESERVATION)
"""Obstacles that no free device would remove."""


def contested(desk: Desk) -> set[str]:
    """Device types that somebody waits for."""
    return {
        device_type
        for name, obstacle in desk.outcome.obstacles.items()
        if obstacle not in _NOT_FOR_ROOM
        for option in desk.options(desk.view.jobs[name].job)
        for device_type in desk.types(option)
    }


def grow(desk: Desk, allocation: Allocation, taken: set[str]) -> None:
    """Add workers to a job that runs or has just been started, up to its most."""
    state = desk.view.jobs[allocation.job]
    if not _may_grow(desk, state):
        return
    base = desk.placement_of(state)
    option = _option_of(desk, state, base)
    if option is None or taken & set(desk.types(option)):
        return
    workers = base.count(Role.WORKER)
    added = _admitted(desk, state, option, allocation.most - workers)
    if added > 0:
        _add(desk, state, option, base, workers + added)


def _may_grow(desk: Desk, state: JobState) -> bool:
    if state.name in desk.outcome.starts:
        return True
    changed = state.name in desk.outcome.resizes or state.name in desk.outcome.moves
    return state.phase is Phase.RUNNING and not changed and state.name not in desk.outcome.stops


def _option_of(desk: Desk, state: JobState, base: Placement) -> Option | None:
    kinds = {desk.view.cluster.node(slot.node).configuration for slot in base.slots if slot.bits}
    return next((o for o in desk.options(state.job) if kinds <= set(o)), None)


def _admitted(desk: Desk, state: JobState, option: Option, wanted: int) -> int:
    """How many more workers the pool may take, of its own or borrowed."""
    types, devices = desk.types(option), state.job.workers.need.devices
    if not devices or len(types) != 1:
        return wanted if not devices else 0
    for count in range(wanted, 0, -1):
        amounts = {types[0]: count * devices}
        if desk.books.verdict(state.job, amounts, borrow=state.job.preemptible) is None:
            return count
    return 0


def _add(desk: Desk, state: JobState, option: Option, base: Placement, workers: int) -> None:
    goal = plan_for(state.job, workers)
    missing = tuple(
        Part(part.role, part.count - base.count(part.role), part.need)
        for part in goal.parts
        if part.count > base.count(part.role)
    )
    request = Request(Plan(missing), option, desk.widest(state.job, goal.devices, option))
    slots = grow_beside(desk.board, request, base)
    grown = base.with_slots(slots)
    if not any(slot.role is Role.WORKER for slot in slots):
        return
    # With fewer than all, the best placement is closer, and the same slowdown means less.
    widest = desk.widest(state.job, grown.devices, option)
    if spanned(desk.view.cluster, grown) <= widest:
        desk.extend(state, slots, Reason(Code.GROWN))
