"""A running job on devices of several types: as many of each as the policy says.

Tasks that it has too many of on a type leave, and those it lacks join near the others, inside its
contract. Where its model and the links are known, the planner has the last word: the step on the
unequal devices, with the batch shared so that all finish together, must be clearly shorter.
"""

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.plans import CLEARLY
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Part, Plan
from muster.model.view import JobState
from muster.place.board import Board
from muster.place.contract import spanned
from muster.place.grow import grow
from muster.place.request import Request
from muster.place.uplinks import without_slow
from muster.policy.base import Allocation


def mixes(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether a running job has devices of several types, or shall have."""
    if state.placement is None or allocation.device_type is None or not state.job.mixes:
        return False
    held = cycle.amounts(state.placement.slots)
    return bool(allocation.beside) or (len(held) > 1 and allocation.device_type in held)


def surplus(cycle: CycleState, state: JobState, allocation: Allocation) -> tuple[Slot, ...]:
    """Return the tasks that it has beyond what it shall have of each type."""
    assert state.placement is not None
    left, goes = _goal(allocation), []
    for slot in state.placement.slots:
        if slot.role is Role.WORKER:
            device_type = _type_of(cycle, slot)
            left[device_type] = left.get(device_type, 0) - 1
            if left[device_type] < 0:
                goes.append(slot)
    return tuple(goes)


def unequal(
    cycle: CycleState, board: Board, state: JobState, allocation: Allocation
) -> Placement | None:
    """Return its tasks with those it lacks beside them; None: they do not fit, or would not help."""
    assert state.placement is not None
    found = state.placement.without(surplus(cycle, state, allocation))
    if not found.slots:
        return None
    for device_type, count in _goal(allocation).items():
        lacks = count - sum(_type_of(cycle, slot) == device_type for slot in found.slots)
        if lacks > 0:
            found = _grown(cycle, board, state, found, device_type, lacks)
    more = found.count(Role.WORKER) < sum(_goal(allocation).values())
    if more or not _within(cycle, state, found) or not _pays(cycle, state, found):
        return None
    return found


def _goal(allocation: Allocation) -> dict[str, int]:
    return {allocation.device_type or "": allocation.most, **dict(allocation.beside)}


def _type_of(cycle: CycleState, slot: Slot) -> str:
    cluster = cycle.view.cluster
    return cluster.configuration_of(cluster.node(slot.node)).device_type


def _grown(
    cycle: CycleState, board: Board, state: JobState, kept: Placement, device_type: str, lacks: int
) -> Placement:
    """Return what it keeps with workers on one more type, as many as fit."""
    job, cluster = state.job, cycle.view.cluster
    kinds = tuple(k.name for k in cluster.configurations.values() if k.device_type == device_type)
    devices = kept.devices + lacks * job.workers.need.devices
    request = Request(
        Plan((Part(Role.WORKER, lacks, job.workers.need),)),
        kinds,
        cycle.options.widest(job, devices, cycle.options.whole(job)),
    )
    with without_slow(board, cycle.uplinks, kept):
        return kept.with_slots(grow(board, request, kept))


def _within(cycle: CycleState, state: JobState, placement: Placement) -> bool:
    """Whether its pools allow what it takes, and its contract where that is."""
    assert state.placement is not None
    held = set(state.placement.slots)
    amounts = cycle.amounts(tuple(slot for slot in placement.slots if slot not in held))
    if amounts and cycle.quotas.verdict(state.job, amounts, borrow=True) is not None:
        return False
    return keeps_contract(cycle, state.job, placement)


def keeps_contract(cycle: CycleState, job: Job, placement: Placement) -> bool:
    """Whether its devices, of one or several types, are as close as it asks."""
    kinds = {cycle.view.cluster.node(s.node).configuration for s in placement.slots if s.bits}
    every = (*cycle.options.of(job), cycle.options.whole(job))
    option = next((each for each in every if kinds <= set(each)), None)
    if option is None:
        return False
    widest = cycle.options.widest(job, placement.devices, option)
    return spanned(cycle.view.cluster, placement) <= widest


def _pays(cycle: CycleState, state: JobState, placement: Placement) -> bool:
    """Whether the planner finds a larger set of unequal devices faster, if it can tell."""
    assert state.placement is not None
    shape = cycle.shape_of(state)
    if shape is None or placement.devices <= state.placement.devices:
        return True
    if len(cycle.amounts(placement.slots)) < 2 or not state.placement.slots:
        return True
    plans = cycle.standing.plans
    then, now = (plans.choose(state.job, shape, each) for each in (placement, state.placement))
    return then is None or now is None or then.step < CLEARLY * now.step
