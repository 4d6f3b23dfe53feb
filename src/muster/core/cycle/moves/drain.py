"""Empty draining nodes without losing work.

A job that is resized live leaves at once: it grows on other nodes and shrinks off this one, down to its
gang where nothing else is free. Any other job finishes where it is. If the node has a deadline, what is
still there is stopped in time to checkpoint before it,

    deadline - checkpoint grace - grace                                                          [s]

and continues on free devices elsewhere, or goes back to the queue.
"""

from collections.abc import Collection, Iterator
from dataclasses import replace
from math import inf

from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.moves.rearrange import beside, placed_whole
from muster.core.cycle.moves.unequal import keeps_contract
from muster.core.cycle.standing import Standing
from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase, View
from muster.place.adaptive import Mood
from muster.place.request import Request

_MAY_STOP = (Phase.RUNNING, Phase.STARTING)


def drain(cycle: CycleState) -> None:
    """Move jobs off draining nodes, and stop those that must be gone by a deadline."""
    nodes = cycle.standing.draining
    for state in _there(cycle.view, nodes):
        if state.phase is Phase.RUNNING and moves_live(state.job) and _move_live(cycle, state, nodes):
            continue
        if state.phase in _MAY_STOP and cycle.now >= leaves_at(cycle.view, state):
            _clear(cycle, state)


def next_clearing(standing: Standing, now: float) -> float:
    """Return when the next job must leave a draining node, in s; infinity: none must."""
    if not standing.draining:
        return inf
    moments = (leaves_at(standing.view, state) for state in _there(standing.view, standing.draining))
    return min((moment for moment in moments if moment > now), default=inf)


def moves_live(job: Job) -> bool:
    """Whether the job can change its tasks while it trains."""
    return job.elastic and not job.restarts


def finding_room(view: View) -> frozenset[int]:
    """Return the jobs on draining nodes for which other nodes have room now, those that move live
    first: two jobs are not told of the same devices."""
    # A long queue takes no room, but would take a tenth of a second to look through.
    held = {number: state for number, state in view.jobs.items() if state.held()}
    standing = Standing(replace(view, jobs=held, names={}))
    cycle = CycleState(standing, Entitlements({}), (), 0.0, Mood(), Rules())
    nodes = standing.draining
    there = sorted(_there(view, nodes), key=lambda state: not moves_live(state.job))
    return frozenset(state.number for state in there if _finds_room(cycle, _settled(state), nodes))


def leaves_at(view: View, state: JobState) -> float:
    """Return when the job must begin to leave its draining nodes, in s; infinity: never."""
    ends = (view.cluster.node(slot.node).until for slot in state.held())
    first = min((end for end in ends if end is not None), default=inf)
    return first - _to_stop(state.job)


def _to_stop(job: Job) -> float:
    """Return the most seconds between the decision to stop a job and the end of its last task."""
    program = job.program
    if program.checkpoint_signal is not None:
        return program.checkpoint_grace + program.grace
    # The runtime is asked to leave first; SIGTERM follows after one grace, SIGKILL after two.
    return 2 * program.grace if job.resumes else program.grace


def _there(view: View, nodes: Collection[str]) -> Iterator[JobState]:
    """Yield the jobs with tasks on these nodes."""
    if nodes:
        yield from (s for s in view.jobs.values() if any(slot.node in nodes for slot in s.held()))


def _settled(state: JobState) -> JobState:
    """Return the job after the change in progress."""
    return replace(state, placement=state.target or state.placement, target=None)


def _finds_room(cycle: CycleState, state: JobState, nodes: Collection[str]) -> bool:
    if state.placement is None or state.placement.nodes().isdisjoint(nodes):
        return True  # it is on its way already
    if moves_live(state.job):
        return _move_live(cycle, state, nodes)
    placement = _elsewhere(cycle, state)
    if placement is not None:
        cycle.move(state, placement, _reason(cycle, state, Code.MIGRATED_DRAINED))
    return placement is not None


def _move_live(cycle: CycleState, state: JobState, nodes: Collection[str]) -> bool:
    """Give the job tasks elsewhere, as many as now if there is room; False: not even its gang fits."""
    assert state.placement is not None
    option = cycle.options.used_by(state.job, state.placement)
    if option is None:
        return _shed(cycle, state, nodes)
    plan = _as_placed(state)
    widest = cycle.options.widest(state.job, plan.devices, option)
    placement = _off(cycle, state, Request(plan, option, widest), nodes)
    if placement is None or (not state.job.preemptible and _fewer(placement, plan)):
        return False
    cycle.rearrange(state, placement, _reason(cycle, state, Code.RESIZED_DRAINED))
    cycle.settled.add(state.number)
    return True


def _shed(cycle: CycleState, state: JobState, nodes: Collection[str]) -> bool:
    """Let a job on devices of several types go on with those elsewhere, else on one of the types."""
    assert state.placement is not None
    job, plan = state.job, _as_placed(state)
    kept = Placement(tuple(slot for slot in state.placement.slots if slot.node not in nodes))
    placement = kept if _gang_whole(job, kept) and keeps_contract(cycle, job, kept) else None
    for option in cycle.options.pure(job) if placement is None else ():
        widest = cycle.options.widest(job, plan.devices, option)
        placement = placement or _off(cycle, state, Request(plan, option, widest), nodes)
    if placement is None or not job.preemptible:
        return False
    cycle.rearrange(state, placement, _reason(cycle, state, Code.RESIZED_DRAINED))
    cycle.settled.add(state.number)
    return True


def _off(
    cycle: CycleState, state: JobState, request: Request, nodes: Collection[str]
) -> Placement | None:
    """Return a placement off these nodes with the most workers; tasks elsewhere stay if they can."""
    assert state.placement is not None
    kept = Placement(tuple(slot for slot in state.placement.slots if slot.node not in nodes))
    near = beside(cycle, cycle.board, state.job, kept, request) if kept.slots else None
    if near is not None and not _gang_whole(state.job, near):
        near = None
    if near is None or _fewer(near, request.plan):
        least = state.job.workers.gang if near is None else near.count(Role.WORKER) + 1
        for workers in range(request.plan.count(Role.WORKER), least - 1, -1):
            smaller = cycle.options.request(state.job, workers, request.kinds)
            whole = placed_whole(cycle, cycle.board, state, smaller)
            if whole is not None:
                return whole
    return near


def _reason(
    cycle: CycleState,
    state: JobState,
    code: Code,
    cost: float | None = None,
    lost: float | None = None,
) -> Reason:
    """Return why the job leaves, with what its engine or administrator said of the node."""
    nodes = (cycle.standing.draining.get(slot.node) for slot in state.held())
    said = next((f"{node.name}: {node.why}" for node in nodes if node and node.why), "")
    return Reason(code, because=said, cost=cost, lost=lost)


def _as_placed(state: JobState) -> Plan:
    """Return the job's current numbers of tasks, but no more than it now asks for."""
    assert state.placement is not None
    counts = ((s, min(s.most, state.placement.count(s.role))) for s in state.job.roles)
    return Plan(tuple(Part(spec.role, count, spec.need) for spec, count in counts if count))


def _gang_whole(job: Job, placement: Placement) -> bool:
    return all(placement.count(spec.role) >= spec.gang for spec in job.roles)


def _fewer(placement: Placement, plan: Plan) -> bool:
    return placement.count(Role.WORKER) < plan.count(Role.WORKER)


def _clear(cycle: CycleState, state: JobState) -> None:
    """Move the job to free devices elsewhere by a restart, or put it back into the queue."""
    price = (cycle.cost(state), cycle.lost(state))
    placement = _elsewhere(cycle, state) if state.phase is Phase.RUNNING else None
    if placement is not None:
        cycle.move(state, placement, _reason(cycle, state, Code.MIGRATED_DRAINED, *price))
    else:
        cycle.stop(state, _reason(cycle, state, Code.PREEMPTED_DRAINED, *price))
    cycle.settled.add(state.number)


def _elsewhere(cycle: CycleState, state: JobState) -> Placement | None:
    """Return a placement of the whole job on other devices of its type that are free now."""
    assert state.placement is not None
    option = cycle.options.used_by(state.job, state.placement)
    if option is None:
        return None
    plan = _as_placed(state)
    request = Request(plan, option, cycle.options.widest(state.job, plan.devices, option))
    return placed_whole(cycle, cycle.board, state, request)
