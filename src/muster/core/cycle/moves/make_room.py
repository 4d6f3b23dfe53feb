"""Make room without preempting: move small jobs, or wait for those that end soonest."""

from math import inf

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.options import Option
from muster.core.cycle.outcome import MigrationReport
from muster.model.decision import Promise
from muster.model.plan import Part, Plan
from muster.model.reason import Code, Reason
from muster.model.topology import Level, each_bit
from muster.model.view import JobState
from muster.place.clear import Candidate, cheapest_clearing
from muster.place.emptied import cheapest_emptying
from muster.place.migrate import Migration, Movable, cheapest_migration
from muster.place.request import Request


def migrate(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """Move small jobs if enough is free but scattered, and if that pays; one migration per cycle.

    Gain: the gang's expected wait, times its devices. Cost: the pauses of the moved jobs, times theirs.
    """
    if cycle.outcome.migrations or not cycle.rules.migrate:
        return None
    for option in cycle.short_of_room(state.job, workers):
        request = cycle.options.request(state.job, workers, option)
        if cycle.board.free_devices(option) < request.plan.devices:
            continue
        gain = request.plan.devices * expected_wait(cycle, state, request)
        if gain <= cycle.too_little.get(request, 0.0):
            continue
        movables = [m for s in cycle.running() if (m := movable(cycle, s, option, request, gain))]
        migration = cheapest_moves(cycle, request, movables, gain) if movables else None
        if migration is not None:
            carry_out(cycle, state, option, migration, gain)
            return Promise(state.number, migration.placement, Code.WAITING_MIGRATION, inf)
        cycle.too_little[request] = gain
    return None


def cheapest_moves(
    cycle: CycleState, request: Request, movables: list[Movable], gain: float
) -> Migration | None:
    """Return the cheapest moves that pay: those that give a gang over several nodes whole ones, else
    any that make room."""
    for search in (cheapest_emptying, cheapest_migration):
        migration = search(cycle.board, request, movables)
        if migration is not None and migration.cost < gain:
            return migration
    return None


def expected_wait(cycle: CycleState, state: JobState, request: Request) -> float:
    """Return how long the gang would wait for room to come free by itself, in s: as long again as it
    has waited, or until the first place opens."""
    if request not in cycle.openings:
        cycle.openings[request] = _first_opening(cycle, request)
    return max(cycle.now - state.submitted, cycle.openings[request])


def _first_opening(cycle: CycleState, request: Request) -> float:
    """Return the s until enough jobs have ended on enough nodes of one group; 0 if that is unknown."""
    board, found = cycle.board, []
    if not request.plan.devices:
        return 0.0
    size = max(board.shelves[kind].kind.devices for kind in request.kinds)
    nodes = -(-request.plan.devices // size)
    usable = sum(board.shelves[kind].members for kind in request.kinds)
    for mask in board.groups(max(Level.RACK, request.widest)):
        there = (
            _opening(cycle, node, min(size, request.plan.devices)) for node in each_bit(mask & usable)
        )
        soonest = sorted(opening for opening in there if opening is not None)[:nodes]
        if len(soonest) == nodes:
            found.append(soonest[-1])
    return min(found, default=0.0)


def _opening(cycle: CycleState, node: int, devices: int) -> float | None:
    """Return the s until a node has this many free devices, None if it never does."""
    board = cycle.board
    free, opening = board.free[node].bit_count(), 0.0
    tenants = cycle.standing.neighbourhood.on(board.names[node])
    for left, held in sorted(
        (time_left(cycle, job), bits.bit_count()) for job, bits in tenants.items()
    ):
        if free >= devices:
            break
        free, opening = free + held, left
    return opening if free >= devices else None


def time_left(cycle: CycleState, job: int) -> float:
    """Return the s that a job is expected to run on, by what it has shown, else by its duration;
    without one, as long again as so far."""
    state, outlook = cycle.view.jobs[job], cycle.view.outlooks.get(job)
    if outlook is not None and outlook.here:
        return outlook.left / outlook.here
    end = cycle.expected_end(state)
    if end is not None:
        return max(0.0, end - cycle.now)
    return 0.0 if state.started is None else cycle.now - state.started


def run_expected(cycle: CycleState, state: JobState) -> float:
    """Return the s that a job about to start should run: without a duration, as long as half of the
    running jobs have run."""
    if state.job.duration is not None:
        return state.job.duration
    return cycle.usual_age


def movable(
    cycle: CycleState, state: JobState, option: Option, wanted: Request, gain: float
) -> Movable | None:
    """Return the job as movable if it is smaller than the gang, preemptible and cheap enough."""
    assert state.placement is not None
    devices, cost = state.placement.devices, cycle.moving_cost(state)
    if not 0 < devices < wanted.plan.devices or cost >= gain:
        return None
    if not state.job.preemptible or state.number in cycle.outcome.resizes:
        return None
    if state.number not in cycle.movers:
        cycle.movers[state.number] = _mover(cycle, state, cost)
    found = cycle.movers[state.number]
    return None if found is None or set(found.request.kinds).isdisjoint(option) else found


def _mover(cycle: CycleState, state: JobState, cost: float) -> Movable | None:
    assert state.placement is not None
    request = moved(cycle, state)
    if request is None:
        return None
    candidate = Candidate(state.number, state.placement.slots, cost)
    return Movable(candidate, request, cycle.strategy(state.job))


def moved(cycle: CycleState, state: JobState) -> Request | None:
    """Return the request of a job to be moved, None if its devices are of several types.

    To the same device type only: the quotas are unaffected.
    """
    known = cycle.standing.moved.get(state.number)
    if known is None or known[0] is not state:
        known = cycle.standing.moved[state.number] = state, _moved(cycle, state)
    return known[1]


def _moved(cycle: CycleState, state: JobState) -> Request | None:
    assert state.placement is not None
    own, plan = cycle.options.used_by(state.job, state.placement), _as_placed(state)
    if own is None:
        return None
    return Request(plan, own, cycle.options.widest(state.job, plan.devices, own))


def _as_placed(state: JobState) -> Plan:
    """Return the job's current plan."""
    assert state.placement is not None
    parts = (Part(s.role, state.placement.count(s.role), s.need) for s in state.job.roles)
    return Plan(tuple(part for part in parts if part.count))


def carry_out(
    cycle: CycleState, state: JobState, option: Option, migration: Migration, gain: float
) -> None:
    before = cycle.board.fragmentation(option)
    movers = [cycle.view.jobs[move.job] for move in migration.moves]
    for job, move in zip(movers, migration.moves, strict=True):
        cost = cycle.view.resize_pause(job) * move.placement.devices
        reason = Reason(
            Code.MIGRATED,
            beneficiary=state.job.name,
            cost=cost,
            gain=gain,
            served=state.number,
        )
        cycle.move(job, move.placement, reason)
    with cycle.board.lifted(slot for job in movers for slot in job.held()):
        after = cycle.board.fragmentation(option)
    numbers = tuple(job.number for job in movers)
    cycle.outcome.migrations.append(
        MigrationReport(state.number, numbers, migration.cost, gain, before, after)
    )


def reserve(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """After a long wait, promise the devices that come free first; one such promise at a time.

    It holds for the patience and is then recomputed: where ends are unknown, other jobs may have ended
    first.
    """
    if cycle.now - state.submitted < cycle.rules.patience or cycle.reserved():
        return None
    standing = cycle.outcome.promises.get(state.number)
    if standing is not None:
        return standing
    for option in cycle.short_of_room(state.job, workers):
        request = cycle.options.request(state.job, workers, option)
        if ("reserve", request) in cycle.hopeless:
            continue
        candidates = [c for s in cycle.view.jobs.values() if (c := _ending(cycle, s, option))]
        clearing = cheapest_clearing(cycle.board, request, candidates)
        if clearing is not None:
            ends = [cycle.expected_end(cycle.view.jobs[c.job]) for c in clearing.removed]
            known = [end for end in ends if end is not None]
            expected = max(known, default=None) if len(known) == len(ends) else None
            until = cycle.now + cycle.rules.patience
            return Promise(state.number, clearing.placement, Code.WAITING_DEVICES, until, expected)
        cycle.hopeless.add(("reserve", request))
    return None


def _ending(cycle: CycleState, state: JobState, option: Option) -> Candidate | None:
    """Return a job that holds devices, priced by how long it is expected to keep them.

    Without a duration: as long again as it has run, and at least the patience.
    """
    started = cycle.outcome.starts.get(state.number)
    held = started.placement.slots if started else state.held()
    kinds = {cycle.view.cluster.node(slot.node).configuration for slot in held}
    if kinds.isdisjoint(option):
        return None
    end = cycle.expected_end(state)
    elapsed = cycle.now - state.started if state.started is not None else 0.0
    left = max(elapsed, cycle.rules.patience) if end is None else max(0.0, end - cycle.now)
    return Candidate(state.number, held, left * sum(slot.bits.bit_count() for slot in held))
