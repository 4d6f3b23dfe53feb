"""Steps 3 to 5 for a policy that steers: give every job exactly what the policy says.

First jobs with too much shrink or stop, unless that serves nobody (`take_back`), then, in the policy's
order, jobs with too little get what is free. Released devices are held until the executor reports them
free, so a job that needs them waits for the next cycle instead of being changed twice.
"""

from collections.abc import Iterable, Iterator

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.make_room import migrate
from muster.core.cycle.moves.rearrange import excess, rearranged, within_contract
from muster.core.cycle.moves.undisturbed import undisturbed
from muster.core.cycle.moves.unequal import keeps_contract, mixes, surplus, unequal
from muster.core.cycle.start_gangs import find, place_on
from muster.core.cycle.steering.take_back import take_back
from muster.core.cycle.steering.wanted import elsewhere, has_all, options_for
from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.plan import Plan
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.planner.counts import missing, plan_for
from muster.policy.base import Allocation

_SHARE, _ASKED = Reason(Code.RESIZED_POLICY), Reason(Code.SHRUNK_ASKED)


def steer(cycle: CycleState) -> None:
    """Carry out the policy's targets as far as possible now."""
    enlarged: list[tuple[JobState, Allocation]] = []
    every = ((cycle.view.jobs[each.job], each) for each in cycle.steered.values())
    lacking = [each for each in every if not has_all(cycle, *each)]
    for state, allocation in lacking:
        if state.phase is Phase.RUNNING and state.job.preemptible:
            if state.job.restarts and allocation.most:
                _stop_to_change(cycle, state, allocation, enlarged)
            else:
                _let_go(cycle, state, allocation)
    if enlarged:
        _stop_to_enlarge(cycle, enlarged)
    take_back(cycle, lacking)
    blocked: list[tuple[JobState, Allocation]] = []
    for state, allocation in _borrowers_last(cycle, lacking):
        if state.phase is Phase.WAITING and allocation.most:
            _start(cycle, state, allocation)
        elif _to_change(cycle, state, allocation) and not _change(cycle, state, allocation):
            blocked.append((state, allocation))
    if blocked and not cycle.is_coming():
        _break_deadlock(cycle, blocked)


def _borrowers_last(
    cycle: CycleState, lacking: Iterable[tuple[JobState, Allocation]]
) -> Iterator[tuple[JobState, Allocation]]:
    """Yield jobs in the policy's order, those last that would take what belongs to another pool.

    The policy deals within entitlements, but a stop that was taken back leaves a pool with more than it
    was dealt. If such a pool came first, it would have to give back a job as soon as the other asks.
    """
    borrowers = []
    for state, allocation in lacking:
        if _borrows(cycle, state, allocation):
            borrowers.append((state, allocation))
        else:
            yield state, allocation
    yield from borrowers


def _borrows(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether a waiting job would take its pool beyond its entitlement, all changes made."""
    device_type, most = allocation.device_type, allocation.most
    waits = state.phase is Phase.WAITING and most > 0
    if not waits or device_type is None or len(cycle.view.pools.pools) == 1:
        return False
    devices = plan_for(state.job, most, allocation.servers).devices
    return bool(cycle.quotas.overshoots(state.job, {device_type: devices}))


def lend_idle(cycle: CycleState) -> None:
    """Start gangs beyond their pool's entitlement on what no job within its own can use.

    The policy deals within entitlements; the rest of one, too small for any gang of its own pool, would
    stay idle.
    """
    if len(cycle.view.pools.pools) == 1 or cycle.is_coming():
        return
    for allocation in cycle.steered.values():
        state = cycle.view.jobs[allocation.job]
        job = state.job
        if state.phase is not Phase.WAITING or allocation.most or not job.preemptible:
            continue
        likes = cycle.likes(job, job.workers.gang)
        if likes in cycle.turned_away:
            continue
        placement, obstacle = find(cycle, job, job.workers.gang, borrow=True)
        if placement is not None:
            cycle.start(job, placement, Reason(Code.STARTED_BORROWING))
        else:
            cycle.turned_away[likes] = obstacle


def _to_change(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Whether the job runs, keeps running, and is unchanged by this cycle."""
    stays = state.phase is Phase.RUNNING and allocation.most > 0 and cycle.untouched(state)
    return stays and state.number not in cycle.outcome.resizes and state.number not in cycle.spared


def _stop_to_change(
    cycle: CycleState,
    state: JobState,
    allocation: Allocation,
    enlarged: list[tuple[JobState, Allocation]],
) -> None:
    """Stop a job that must restart to change: it is then placed as a whole, with all that comes free.

    One that needs more than it holds is only recorded: that may not be available.
    """
    assert state.placement is not None
    goal = plan_for(state.job, allocation.most, allocation.servers)
    if elsewhere(cycle, state, allocation) or goal.devices > state.placement.devices:
        enlarged.append((state, allocation))
    elif _miscounts(state, goal):
        cycle.stop(state, _why_less(state))
    elif allocation.batch != state.batch:
        cycle.rearrange(state, state.placement, _SHARE)


def _stop_to_enlarge(cycle: CycleState, enlarged: list[tuple[JobState, Allocation]]) -> None:
    """Stop jobs that fit on what they hold and all that comes free: any other would be stopped again
    and again, only to restart unchanged."""
    board = cycle.later().copy()
    for state, allocation in enlarged:
        assert state.placement is not None
        board.put_back(state.placement.slots)
        place = cycle.strategy(state.job)
        requests = (
            cycle.options.request(state.job, allocation.most, option, allocation.servers)
            for option in options_for(cycle, state.job, allocation)
        )
        found = next((p for request in requests if (p := place(board, request)) is not None), None)
        board.take((found or state.placement).slots)
        if found is not None:
            cycle.stop(state, _SHARE)


def _break_deadlock(cycle: CycleState, blocked: list[tuple[JobState, Allocation]]) -> None:
    """Stop jobs that each hold the device type another of them needs to move."""
    held = {state.number: cycle.amounts(state.held()) for state, _ in blocked}
    before = len(blocked) + 1
    while len(blocked) < before:
        before = len(blocked)
        blocked = [
            (state, wanted)
            for state, wanted in blocked
            if any(wanted.device_type in held[o.number] for o, _ in blocked if o is not state)
        ]
    for state, _ in blocked:
        cycle.stop(state, Reason(Code.MIGRATED_POLICY))


def _let_go(cycle: CycleState, state: JobState, allocation: Allocation) -> None:
    """Stop the job, or take what it has beyond its target."""
    if not allocation.most:
        cycle.stop(state, Reason(Code.PREEMPTED_POLICY))
        return
    assert state.placement is not None
    if mixes(cycle, state, allocation):
        _let_go_of_types(cycle, state, allocation)
        return
    goal = plan_for(state.job, allocation.most, allocation.servers)
    goes = excess(state, goal)
    if not goes or missing(goal, state.placement).parts or elsewhere(cycle, state, allocation):
        return  # it has too little of something: `_change` does both at once
    if within_contract(cycle, state.job, state.placement.without(goes)):
        cycle.shrink(state, goes, _why_less(state))


def _why_less(state: JobState) -> Reason:
    """Return why a job gets fewer workers: its user may have asked for fewer than it has."""
    assert state.placement is not None
    too_many = state.placement.count(Role.WORKER) > state.job.workers.most
    return _ASKED if too_many else _SHARE


def _let_go_of_types(cycle: CycleState, state: JobState, allocation: Allocation) -> None:
    """Take what a job on several types has beyond its target on each, if it lacks nothing."""
    assert state.placement is not None
    goes = surplus(cycle, state, allocation)
    wanted = allocation.most + sum(count for _, count in allocation.beside)
    stays = state.placement.without(goes)
    if goes and stays.count(Role.WORKER) == wanted and keeps_contract(cycle, state.job, stays):
        cycle.shrink(state, goes, _SHARE)


def _miscounts(state: JobState, goal: Plan) -> bool:
    """Whether the job's numbers of tasks differ from the goal."""
    placed = state.placement
    assert placed is not None
    fixed = (spec.role for spec in state.job.roles if not spec.optional)
    return any(placed.count(role) != goal.count(role) for role in fixed)


def _start(cycle: CycleState, state: JobState, allocation: Allocation) -> None:
    """Start a waiting job; if its target is not coming free, with as many workers as fit."""
    job, obstacles = state.job, cycle.outcome.obstacles
    promise = cycle.outcome.promises.get(job.number)
    cycle.release(job.number)
    for workers in _sizes(cycle, job, allocation):
        placement, obstacle = find_wanted(cycle, job, workers, allocation)
        if placement is not None:
            better = undisturbed(cycle, state, placement)
            if better is not None:
                cycle.promise(better)
                obstacles[job.number] = better.cause
                return
            obstacles.pop(job.number, None)
            cycle.start(job, placement, Reason(Code.STARTED_PROMISED if promise else Code.STARTED))
            return
        obstacles.setdefault(job.number, obstacle)
    cycle.outcome.promises.pop(job.number, None)
    if cycle.is_coming():
        if promise is not None:
            cycle.promise(promise)
    elif obstacles[job.number] is Code.WAITING_DEVICES and allocation.device_type is None:
        promise = migrate(cycle, state, job.workers.gang)
        if promise is not None:
            cycle.promise(promise)
            obstacles[job.number] = promise.cause


def _sizes(cycle: CycleState, job: Job, allocation: Allocation) -> Iterator[int]:
    """Yield the target, then fewer workers down to the gang, unless more is coming free and it would
    have to restart to have it."""
    yield allocation.most
    if not job.restarts or not cycle.is_coming():
        yield from range(allocation.most - 1, job.workers.gang - 1, -1)


def find_wanted(
    cycle: CycleState, job: Job, workers: int, allocation: Allocation
) -> tuple[Placement | None, Code]:
    """Return a placement on the first option of the wanted type that has one, or the obstacle."""
    found: list[Code] = []
    for option in options_for(cycle, job, allocation):
        request = cycle.options.request(job, workers, option, allocation.servers)
        # The policy respects entitlements; limits and reservations are left to check.
        placement, obstacle = place_on(cycle, job, request, borrow=job.preemptible)
        if placement is not None:
            return placement, Code.STARTED
        found.append(obstacle)
    only_room = Code.WAITING_DEVICES in found or not found
    return None, Code.WAITING_DEVICES if only_room else found[0]


def _change(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Move, resize or re-batch a job to its target; False: it cannot move."""
    assert state.placement is not None
    if elsewhere(cycle, state, allocation):
        return not state.job.preemptible or _relocate(cycle, state, allocation)
    if mixes(cycle, state, allocation):
        placement = unequal(cycle, cycle.board, state, allocation)
        if placement is not None and set(placement.slots) != set(state.placement.slots):
            cycle.rearrange(state, placement, _SHARE)
        return True
    goal = plan_for(state.job, allocation.most, allocation.servers)
    if state.job.restarts:
        return True
    if missing(goal, state.placement).parts or (state.job.preemptible and excess(state, goal)):
        _rearrange(cycle, state, allocation)
    elif allocation.batch != state.batch:
        cycle.rearrange(state, state.placement, _SHARE)
    return True


def _relocate(cycle: CycleState, state: JobState, allocation: Allocation) -> bool:
    """Move a running job to the wanted device type, if there is room."""
    if state.job.restarts:
        return False
    placement, _ = find_wanted(cycle, state.job, allocation.most, allocation)
    if placement is not None:
        cycle.relocate(state, placement, Reason(Code.MIGRATED_POLICY))
    return placement is not None


def _rearrange(cycle: CycleState, state: JobState, allocation: Allocation) -> None:
    """Add tasks beside those it keeps, or place all of them again if that takes fewer nodes."""
    assert state.placement is not None
    option = cycle.options.used_by(state.job, state.placement)
    if option is None:
        return
    request = cycle.options.request(state.job, allocation.most, option, allocation.servers)
    more = request.plan.devices - state.placement.devices
    amounts = dict.fromkeys(cycle.options.types(option), more)
    if more > 0 and cycle.quotas.verdict(state.job, amounts, borrow=state.job.preemptible) is not None:
        return
    best = rearranged(cycle, cycle.board, state, request)
    if best is None or (best.count(Role.WORKER) < allocation.most and cycle.is_coming()):
        return
    if set(best.slots) != set(state.placement.slots):
        cycle.rearrange(state, best, _SHARE)
