"""Steps 3 to 5 for a policy that steers: make every job have just what the policy says.

First whatever has too much lets go, then, in the policy's order, whatever has too little gets it from
what is free. What is let go is held until the executor says that it is free, so a job that is to have
it waits for the next cycle, rather than being changed twice; the policy will say the same again then.
"""

from collections import Counter
from collections.abc import Iterator

from muster.core.desk import Desk
from muster.core.floors import place_on
from muster.core.options import Option
from muster.core.room import migrate
from muster.model.job import Job, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Plan
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.contract import spanned
from muster.place.grow import grow
from muster.place.request import Request
from muster.planner.counts import missing, plan_for
from muster.policy.base import Allocation

_SHARE = Reason(Code.RESIZED_POLICY)


def steer(desk: Desk) -> None:
    """Carry out the policy's targets as far as can be now."""
    for allocation in desk.allocations.values():
        state = desk.view.jobs[allocation.job]
        if state.phase is Phase.RUNNING and state.job.preemptible:
            _let_go(desk, state, allocation)
    for allocation in desk.allocations.values():
        state = desk.view.jobs[allocation.job]
        if state.phase is Phase.WAITING and allocation.most:
            _start(desk, state, allocation)
        elif state.phase is Phase.RUNNING and allocation.most and _untouched(desk, state):
            _change(desk, state, allocation)


def _untouched(desk: Desk, state: JobState) -> bool:
    return desk.untouched(state) and state.name not in desk.outcome.resizes


def _let_go(desk: Desk, state: JobState, allocation: Allocation) -> None:
    """Stop the job, or take from it what it has beyond its target."""
    if not allocation.most:
        desk.stop(state, Reason(Code.PREEMPTED_POLICY))
        return
    assert state.placement is not None
    goal = plan_for(state.job, allocation.most, allocation.servers)
    if state.job.restarts:
        # It must stop for any change, and is then best placed as a whole, with all that comes free.
        if _differs(desk, state, allocation, goal):
            desk.stop(state, _SHARE)
        return
    excess = {
        spec.role: state.placement.count(spec.role) - goal.count(spec.role) for spec in state.job.roles
    }
    if max(excess.values()) <= 0 or min(excess.values()) < 0 or _elsewhere(desk, state, allocation):
        return  # it has too little of something: `_change` sees to both at once
    goes = tuple(slot for role, count in excess.items() for slot in _last(state.placement, role, count))
    if _within_contract(desk, state, state.placement.without(goes)):
        desk.shrink(state, goes, _SHARE)


def _differs(desk: Desk, state: JobState, allocation: Allocation, goal: Plan) -> bool:
    """Whether the job has not just what it should."""
    assert state.placement is not None
    counts = any(state.placement.count(s.role) != goal.count(s.role) for s in state.job.roles)
    return counts or allocation.batch != state.batch or _elsewhere(desk, state, allocation)


def _last(placement: Placement, role: Role, count: int) -> list[Slot]:
    """The tasks that leave the rest on the fewest nodes: those from where the job has fewest."""
    slots = [slot for slot in placement.slots if slot.role is role]
    here = Counter(slot.node for slot in slots)
    slots.sort(key=lambda slot: (here[slot.node], slot.node, -slot.index))
    return slots[: max(0, count)]


def _within_contract(desk: Desk, state: JobState, placement: Placement) -> bool:
    """Whether the contract, which fewer devices may make stricter, still holds."""
    option = desk.menu.option_of(state.job, placement)
    if option is None:
        return False
    widest = desk.menu.widest(state.job, placement.devices, option)
    return spanned(desk.view.cluster, placement) <= widest


def _start(desk: Desk, state: JobState, allocation: Allocation) -> None:
    """Give a waiting job its tasks; if what it is to have is not coming, as many as there are."""
    job = state.job
    for workers in _sizes(desk, job, allocation):
        placement, obstacle = _find(desk, job, workers, allocation)
        if placement is not None:
            desk.start(job, placement, Reason(Code.STARTED))
            desk.outcome.obstacles.pop(job.name, None)
            return
        desk.outcome.obstacles.setdefault(job.name, obstacle)
    if not desk.is_coming() and desk.outcome.obstacles[job.name] is Code.WAITING_DEVICES:
        promise = migrate(desk, state, job.workers.gang)
        if promise is not None:
            desk.promise(promise)
            desk.outcome.obstacles[job.name] = promise.cause


def _sizes(desk: Desk, job: Job, allocation: Allocation) -> Iterator[int]:
    """The target, then, unless more is coming, ever fewer workers down to the gang."""
    yield allocation.most
    if not desk.is_coming():
        yield from range(allocation.most - 1, job.workers.gang - 1, -1)


def _find(desk: Desk, job: Job, workers: int, allocation: Allocation) -> tuple[Placement | None, Code]:
    """A place on the first option of the right type that has one; else what stands in the way."""
    found = Code.WAITING_DEVICES
    for option in _options(desk, job, allocation):
        request = desk.menu.request(job, workers, option, allocation.servers)
        # The policy has seen to the entitlements; what binds here are limits and reservations.
        placement, found = place_on(desk, job, request, borrow=job.preemptible)
        if placement is not None:
            break
    else:
        return None, found
    return placement, Code.STARTED


def _options(desk: Desk, job: Job, allocation: Allocation) -> list[Option]:
    wanted = allocation.device_type
    every = dict.fromkeys((*desk.menu.options(job), *desk.menu.pure_options(job)))
    return [option for option in every if wanted is None or desk.menu.types(option) in ((wanted,), ())]


def _elsewhere(desk: Desk, state: JobState, allocation: Allocation) -> bool:
    """Whether the policy wants the job on devices of another type than it has."""
    assert state.placement is not None
    held = desk.amounts(state.placement.slots)
    return allocation.device_type is not None and bool(held) and allocation.device_type not in held


def _change(desk: Desk, state: JobState, allocation: Allocation) -> None:
    """Move, grow or re-batch a running job that does not have what it should."""
    assert state.placement is not None
    if _elsewhere(desk, state, allocation):
        placement, _ = _find(desk, state.job, allocation.most, allocation)
        if placement is not None:
            desk.relocate(state, placement, Reason(Code.MIGRATED_POLICY))
        return
    goal = plan_for(state.job, allocation.most, allocation.servers)
    if all(state.placement.count(part.role) >= part.count for part in goal.parts):
        if allocation.batch != state.batch:
            desk.rearrange(state, state.placement, _SHARE)
        return
    _enlarge(desk, state, allocation)


def _enlarge(desk: Desk, state: JobState, allocation: Allocation) -> None:
    """More tasks beside those it has, or all of them placed anew if that takes fewer nodes."""
    assert state.placement is not None
    option = desk.menu.option_of(state.job, state.placement)
    if option is None:
        return
    request = desk.menu.request(state.job, allocation.most, option, allocation.servers)
    more = dict.fromkeys(desk.menu.types(option), request.plan.devices - state.placement.devices)
    if desk.books.verdict(state.job, more, borrow=state.job.preemptible) is not None:
        return
    beside = _beside(desk, state, request, option)
    anew = _anew(desk, state, request)
    best = min((p for p in (beside, anew) if p is not None), key=_spread, default=None)
    if best is None or (best.count(Role.WORKER) < allocation.most and desk.is_coming()):
        return
    if best.count(Role.WORKER) > state.placement.count(Role.WORKER) or anew is best:
        desk.rearrange(state, best, _SHARE)


def _spread(placement: Placement) -> tuple[int, int]:
    """Most workers first, then fewest nodes."""
    return (-placement.count(Role.WORKER), len(placement.nodes()))


def _beside(desk: Desk, state: JobState, request: Request, option: Option) -> Placement | None:
    assert state.placement is not None
    lacking = missing(request.plan, state.placement)
    slots = grow(desk.board, Request(lacking, option, request.widest), state.placement)
    grown = state.placement.with_slots(slots)
    return grown if _within_contract(desk, state, grown) else None


def _anew(desk: Desk, state: JobState, request: Request) -> Placement | None:
    """The whole of it placed as if its own devices were free; tasks that stay keep their number."""
    assert state.placement is not None
    with desk.board.lifted(state.placement.slots):
        placement = desk.strategy(state.job)(desk.board, request)
    return None if placement is None else _renumbered(placement, state.placement)


def _renumbered(new: Placement, old: Placement) -> Placement | None:
    """The new placement with the old tasks where they are; None where two would overlap."""
    there = {(slot.role, slot.node, slot.bits): slot for slot in old.slots if slot.bits}
    held = old.bits()
    kept = {
        slot: match for slot in new.slots if (match := there.get((slot.role, slot.node, slot.bits)))
    }
    taken = {(slot.role, slot.index) for slot in kept.values()}
    slots: list[Slot] = []
    for slot in new.slots:
        match = kept.get(slot)
        if match is None:
            if slot.bits & held.get(slot.node, 0):
                return None  # of a task with several devices, some stay and some do not
            match = _numbered(slot, taken)
        slots.append(match)
    return Placement(tuple(slots))


def _numbered(slot: Slot, taken: set[tuple[Role, int]]) -> Slot:
    index = 0
    while (slot.role, index) in taken:
        index += 1
    taken.add((slot.role, index))
    return Slot(slot.role, index, slot.node, slot.bits, slot.need)
