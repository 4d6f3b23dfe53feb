"""Jobs grow into what is left: in the policy's order, within contract and quota.

No job grows into a device type that a waiting job could use: it would be reclaimed at once.
"""

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.options import Option
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.plan import Plan
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.contract import spanned
from muster.place.grow import grow as grow_beside
from muster.place.request import Request
from muster.place.uplinks import without_slow
from muster.planner.counts import missing, plan_for
from muster.policy.base import Allocation

_NOT_FOR_ROOM = (Code.WAITING_LIMIT, Code.WAITING_USER_LIMIT, Code.WAITING_RESERVATION)
"""Obstacles that no free device would remove."""


def contested(cycle: CycleState) -> set[str]:
    """Return the device types that jobs wait for."""
    jobs = cycle.view.jobs
    obstacles = cycle.outcome.obstacles.items()
    options = {cycle.options.of(jobs[n].job) for n, why in obstacles if why not in _NOT_FOR_ROOM}
    return {kind for each in options for option in each for kind in cycle.options.types(option)}


def grow(cycle: CycleState, allocation: Allocation, taken: set[str]) -> None:
    """Add workers to a job that runs or has just been started, up to its most."""
    state = cycle.view.jobs[allocation.job]
    if not _may_grow(cycle, state):
        return
    base = cycle.placement_of(state)
    option = cycle.options.used_by(state.job, base)
    if option is None or taken & set(cycle.options.types(option)):
        return
    lacking = _admitted(cycle, state, option, base, allocation.most)
    if lacking is None:
        return
    whole = None
    if state.number in cycle.outcome.starts:  # rather placed as a whole than piece by piece
        workers = base.count(Role.WORKER) + lacking.count(Role.WORKER)
        with cycle.board.lifted(base.slots):
            whole = cycle.place(state.job, cycle.options.request(state.job, workers, option))
    if whole is not None:
        cycle.replace(state, whole)
    else:
        _add(cycle, state, option, base, lacking)


def _may_grow(cycle: CycleState, state: JobState) -> bool:
    if state.number in cycle.outcome.starts:
        return True
    changed = state.number in cycle.outcome.resizes or state.number in cycle.outcome.moves
    return state.phase is Phase.RUNNING and not changed and state.number not in cycle.outcome.stops


def _admitted(
    cycle: CycleState, state: JobState, option: Option, base: Placement, most: int
) -> Plan | None:
    """Return the most additional tasks that its pool may take, its own or borrowed."""
    types = cycle.options.types(option)
    for workers in range(most, base.count(Role.WORKER), -1):
        lacking = missing(plan_for(state.job, workers), base)
        more = dict.fromkeys(types, lacking.devices) if lacking.devices else {}
        if cycle.quotas.verdict(state.job, more, borrow=state.job.preemptible) is None:
            return lacking
    return None


def _add(cycle: CycleState, state: JobState, option: Option, base: Placement, lacking: Plan) -> None:
    devices = base.devices + lacking.devices
    request = Request(lacking, option, cycle.options.widest(state.job, devices, option))
    with without_slow(cycle.board, cycle.uplinks, base):
        slots = grow_beside(cycle.board, request, base)
    grown = base.with_slots(slots)
    if not any(slot.role is Role.WORKER for slot in slots):
        return
    # With fewer tasks the best placement is closer, so the contract may be stricter.
    widest = cycle.options.widest(state.job, grown.devices, option)
    if spanned(cycle.view.cluster, grown) <= widest:
        cycle.extend(state, slots, Reason(Code.GROWN))
