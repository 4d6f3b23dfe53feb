"""Another set of tasks for a running job: beside those it keeps, or placed as a whole."""

from collections import Counter

from muster.core.cycle.cycle_state import CycleState
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Plan
from muster.model.view import JobState
from muster.place.board import Board
from muster.place.contract import spanned
from muster.place.grow import grow
from muster.place.request import Request
from muster.place.uplinks import without_slow
from muster.planner.counts import missing


def rearranged(cycle: CycleState, board: Board, state: JobState, request: Request) -> Placement | None:
    """Add tasks beside those it keeps, or place all of them again if that takes fewer nodes."""
    assert state.placement is not None
    kept = state.placement
    if state.job.preemptible:
        kept = kept.without(excess(state, request.plan))
    grown = beside(cycle, board, state.job, kept, request)
    if not state.job.preemptible or (grown is not None and _is_best(grown, request)):
        return grown
    found = (grown, placed_whole(cycle, board, state, request))
    return min((p for p in found if p is not None), key=_spread, default=None)


def _is_best(placement: Placement, request: Request) -> bool:
    """Whether no placement has more workers, or takes fewer nodes."""
    workers = placement.count(Role.WORKER)
    return workers >= request.plan.count(Role.WORKER) and len(placement.nodes()) == 1


def _spread(placement: Placement) -> tuple[int, int]:
    """Most workers first, then fewest nodes."""
    return (-placement.count(Role.WORKER), len(placement.nodes()))


def beside(
    cycle: CycleState, board: Board, job: Job, kept: Placement, request: Request
) -> Placement | None:
    """Return what it keeps plus as many missing tasks as fit near it, within the contract."""
    lacks = Request(missing(request.plan, kept), request.kinds, request.widest)
    with without_slow(board, cycle.uplinks, kept):
        grown = kept.with_slots(grow(board, lacks, kept))
    return grown if within_contract(cycle, job, grown) else None


def placed_whole(
    cycle: CycleState, board: Board, state: JobState, request: Request
) -> Placement | None:
    """Place the whole job as if its own devices were free; tasks that stay keep their index. Servers
    that are optional stay: `staff_servers` decides about them."""
    assert state.placement is not None
    stay = _optional(state.job, state.placement)
    with board.lifted(state.placement.without(stay).slots):
        placement = cycle.strategy(state.job)(board, request)
    if placement is None:
        return None
    placement = _renumbered(placement, state.placement.without(stay)).with_slots(stay)
    # It holds the old slots until the tasks have left: new ones must fit beside them.
    comes = (slot for slot in placement.slots if slot not in state.placement.slots)
    return placement if board.has(comes) else None


def within_contract(cycle: CycleState, job: Job, placement: Placement) -> bool:
    """Whether the contract, which may be stricter with fewer devices, still holds."""
    option = cycle.options.used_by(job, placement)
    if option is None:
        return False
    widest = cycle.options.widest(job, placement.devices, option)
    return spanned(cycle.view.cluster, placement) <= widest


def excess(state: JobState, goal: Plan) -> tuple[Slot, ...]:
    """Return the tasks that a job has beyond a plan."""
    assert state.placement is not None
    placed = state.placement
    roles = [
        (spec.role, placed.count(spec.role) - goal.count(spec.role))
        for spec in state.job.roles
        if not (spec.optional and placed.count(spec.role) <= spec.most)
    ]
    return tuple(slot for role, count in roles for slot in _last(placed, role, count))


def _optional(job: Job, placement: Placement) -> tuple[Slot, ...]:
    roles = {spec.role for spec in job.roles if spec.optional}
    return tuple(slot for slot in placement.slots if slot.role in roles)


def _last(placement: Placement, role: Role, count: int) -> list[Slot]:
    """Return tasks from the nodes where the job has fewest, which leaves the rest on few nodes."""
    slots = [slot for slot in placement.slots if slot.role is role]
    here = Counter(slot.node for slot in slots)
    slots.sort(key=lambda slot: (here[slot.node], slot.node, -slot.index))
    return slots[: max(0, count)]


def _renumbered(new: Placement, old: Placement) -> Placement:
    """Return the new placement with the indices of tasks that stay in place."""
    there: dict[tuple[Role, str, int], list[Slot]] = {}
    for slot in old.slots:
        there.setdefault((slot.role, slot.node, slot.bits), []).append(slot)
    kept: list[Slot] = []
    comes: list[Slot] = []
    for slot in new.slots:
        matches = there.get((slot.role, slot.node, slot.bits))
        if matches:
            kept.append(matches.pop(0))
        else:
            comes.append(slot)
    taken = {(slot.role, slot.index) for slot in kept}
    return Placement((*kept, *(_numbered(slot, taken) for slot in comes)))


def _numbered(slot: Slot, taken: set[tuple[Role, int]]) -> Slot:
    index = 0
    while (slot.role, index) in taken:
        index += 1
    taken.add((slot.role, index))
    return Slot(slot.role, index, slot.node, slot.bits, slot.need)
