"""Move a job off a node whose link has turned out slow, if the gain beats the price of the change.

Only while no job waits, and one such move per cycle. How much of a step the link costs comes from the
planner where the job's shape is known, else from a usual share of steps.
"""

from collections.abc import Iterator

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.apart import MARGIN, others_need_room
from muster.core.cycle.moves.drain import moves_live
from muster.core.cycle.moves.make_room import moved, time_left
from muster.core.cycle.moves.rearrange import placed_whole
from muster.model.placement import Placement
from muster.model.reason import Code, Reason
from muster.model.view import JobState
from muster.place.uplinks import TOO_SLOW, slowest_link

SHARE = 0.3
"""Part of a step over several nodes that synchronises, of a job whose shape is unknown: ResNet-50's on
two nodes with 10 Gbit/s (docs/explanation/performance.md)."""


def leave_slow_links(cycle: CycleState) -> None:
    """Move the first job, of those on the slowest links, whose move pays."""
    if not cycle.view.uplinks or not cycle.rules.migrate or others_need_room(cycle):
        return
    for state in _held_up(cycle):
        found = _elsewhere(cycle, state)
        if found is not None and _move(cycle, state, found):
            return


def _held_up(cycle: CycleState) -> Iterator[JobState]:
    """Yield running jobs over several nodes, one of them with a link learnt to be slow."""
    slow = {name for name in cycle.view.uplinks if name in cycle.uplinks.slower}
    changing = {*cycle.outcome.resizes, *cycle.settled}
    for state in cycle.running():
        nodes = state.placement.nodes() if state.placement is not None else frozenset()
        if len(nodes) > 1 and nodes & slow and state.job.preemptible and state.number not in changing:
            yield state


def _elsewhere(cycle: CycleState, state: JobState) -> Placement | None:
    """Return the best placement of the whole job, if its slowest link is clearly faster."""
    assert state.placement is not None
    request = moved(cycle, state)
    found = placed_whole(cycle, cycle.board, state, request) if request is not None else None
    if found is None:
        return None
    here, there = (slowest_link(cycle.view.cluster, p, cycle.uplinks) for p in (state.placement, found))
    return found if here < TOO_SLOW * there else None


def _move(cycle: CycleState, state: JobState, found: Placement) -> bool:
    assert state.placement is not None
    saved = _saved(cycle, state, state.placement, found)
    gain = saved * found.devices * time_left(cycle, state.number)
    cost = found.devices * cycle.view.resize_pause(state)
    if gain <= MARGIN * cost:
        return False
    live = moves_live(state.job)
    reason = Reason(Code.RESIZED_LINKS if live else Code.MIGRATED_LINKS, cost=cost, gain=gain)
    (cycle.rearrange if live else cycle.move)(state, found, reason)
    return True


def _saved(cycle: CycleState, state: JobState, here: Placement, there: Placement) -> float:
    """Return the part of a step that another placement saves."""
    shape, plans = cycle.shape_of(state), cycle.standing.plans
    if shape is not None:
        steps = [plans.choose(state.job, shape, placement) for placement in (here, there)]
        if steps[0] is not None and steps[1] is not None:
            return max(0.0, 1.0 - steps[1].step / steps[0].step)
    slow, fast = (slowest_link(cycle.view.cluster, p, cycle.uplinks) for p in (here, there))
    waits = SHARE * (1.0 - slow / fast)
    return waits / (slow / fast + waits) if waits > 0 else 0.0
