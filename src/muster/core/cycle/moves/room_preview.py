"""Which moves would make room for which waiting gang, whether or not they pay.

The cycle makes such moves by itself where the wait that they save is worth more than their pauses
(`make_room.migrate`); here every gang that only lacks devices in one piece is looked at.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

from muster.core.cycle.compare import changed_decision
from muster.core.cycle.cycle import Decisions, Memory
from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.moves.make_room import carry_out, cheapest_moves, expected_wait, movable
from muster.core.cycle.options import Option
from muster.core.cycle.standing import Standing
from muster.core.cycle.start_gangs import find, respect_promises
from muster.core.quotas.pools import entitle
from muster.model.decision import Decision, Kind, Promise
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase, View
from muster.place.migrate import Migration


@dataclass(frozen=True, slots=True)
class RoomPreview:
    """A waiting gang, and the moves that would make room for it."""

    job: int
    migration: Migration
    gain: float
    """Device-seconds that it would otherwise wait, as far as is known."""
    fragmentation_before: float
    fragmentation_after: float


def room_previews(view: View, now: float, memory: Memory) -> tuple[RoomPreview, ...]:
    """Return what each waiting gang would need to have moved, in the order of their submission."""
    waiting = sorted(_waiting(view, now), key=lambda state: (state.submitted, state.number))
    found = (_looked_at(view, now, memory, state) for state in waiting)
    return tuple(each[0] for each in found if each is not None)


def make_room_for(view: View, now: float, memory: Memory, job: int) -> Decisions | None:
    """Return the decisions that make room for a gang, with the promise that keeps it for that gang;
    None: there are none."""
    state = view.jobs[job]
    looked = _looked_at(view, now, memory, state) if state in _waiting(view, now) else None
    if looked is None:
        return None
    preview, cycle = looked
    moved = (view.jobs[move.job] for move in preview.migration.moves)
    decisions = tuple(each for s in moved if (each := changed_decision(cycle, s, None)) is not None)
    # All others wait as before: a set of decisions speaks of every waiting job.
    waiting = (each for each in view.jobs.values() if each.phase is Phase.WAITING)
    why = Reason(Code.WAITING_MIGRATION)
    waits = (Decision(Kind.WAIT, each.number, each.generation, why) for each in waiting)
    promise = Promise(job, preview.migration.placement, Code.WAITING_MIGRATION, inf)
    kept = tuple(each for each in memory.promises if each.job != job)
    remembered = replace(memory, promises=(*kept, promise))
    entitled = entitle(view.pools, cycle.standing.available, cycle.standing.demands(memory.promises))
    return Decisions(view.version, (*decisions, *waits), remembered, entitled)


def _waiting(view: View, now: float) -> Iterator[JobState]:
    for state in view.jobs.values():
        if state.phase is Phase.WAITING and state.may_start(now):
            yield state


def _looked_at(
    view: View, now: float, memory: Memory, state: JobState
) -> tuple[RoomPreview, CycleState] | None:
    """Return the cheapest moves for a gang, and a cycle that makes them."""
    others = tuple(each for each in memory.promises if each.job != state.number)
    standing = Standing(view)
    entitled = entitle(view.pools, standing.available, standing.demands(others))
    cycle = CycleState(standing, entitled, (), now, memory.mood, Rules())
    respect_promises(cycle, others, ())
    workers = state.job.workers.gang
    if find(cycle, state.job, workers)[0] is not None:
        return None  # it starts by itself
    for option in cycle.short_of_room(state.job, workers):
        found = _moves(cycle, state, workers, option)
        if found is not None:
            carry_out(cycle, state, option, found[0], found[1])
            (report,) = cycle.outcome.migrations
            fragmentation = report.fragmentation_before, report.fragmentation_after
            return RoomPreview(state.number, *found, *fragmentation), cycle
    return None


def _moves(
    cycle: CycleState, state: JobState, workers: int, option: Option
) -> tuple[Migration, float] | None:
    request = cycle.options.request(state.job, workers, option)
    if cycle.board.free_devices(option) < request.plan.devices:
        return None
    movables = [m for s in cycle.running() if (m := movable(cycle, s, option, request, inf))]
    migration = cheapest_moves(cycle, request, movables, inf) if movables else None
    if migration is None:
        return None
    return migration, request.plan.devices * expected_wait(cycle, state, request)
