"""What a change of a running job gains, what it costs, and who gets what it gives up.

The cycle knows who is served and what a stop costs; what is left to say is worked out for the few jobs
that change: their believed speed before and after, and by what the beneficiary comes first.
"""

from dataclasses import replace

from muster.core.cycle.cycle_state import CycleState
from muster.core.quotas.demand import held_by_type
from muster.core.why.rivals import Rivals
from muster.model.decision import Decision, Kind
from muster.model.job import Role
from muster.model.placement import Placement
from muster.model.view import JobState, View

_CHANGES = (Kind.RESIZE, Kind.MIGRATE, Kind.PREEMPT)


def with_gain(cycle: CycleState, rivals: Rivals, state: JobState, decision: Decision) -> Decision:
    """Return a decision about a running job with what it gains and costs."""
    if decision.kind not in _CHANGES or state.placement is None:
        return decision
    reason = decision.reason
    found = replace(
        reason,
        given=_released(state.placement, decision.placement) if reason.served else 0,
        speed=_speed_up(cycle.view, state, decision.placement),
        cost=_cost(cycle, state, decision) if reason.cost is None else reason.cost,
        rank=reason.rank or (rivals.against(state, reason.served) if reason.served else None),
    )
    return decision if found == reason else replace(decision, reason=found)


def _released(before: Placement, after: Placement | None) -> int:
    """Return the devices that a job gives up."""
    kept = set(after.slots) if after is not None else set()
    return sum(slot.bits.bit_count() for slot in before.slots if slot not in kept)


def _cost(cycle: CycleState, state: JobState, decision: Decision) -> float | None:
    """Return the device-seconds that a change of its tasks costs; None: only its batch changes."""
    assert state.placement is not None
    if decision.placement is not None and decision.placement.slots == state.placement.slots:
        return None
    return cycle.cost(state) if decision.kind is Kind.PREEMPT else cycle.moving_cost(state)


def _speed_up(view: View, state: JobState, after: Placement | None) -> float | None:
    """Return its believed speed after a change over that before; None: nothing is known, or nothing
    changes."""
    assert state.placement is not None
    if after is None or after.slots == state.placement.slots:
        return None
    before, then = (_rate(view, state, each) for each in (state.placement, after))
    return then / before if before and then else None


def _rate(view: View, state: JobState, placement: Placement) -> float | None:
    """Return the work per s that is believed of it there, on devices of one type."""
    outlook, held = view.outlooks.get(state.number), held_by_type(view.cluster, placement.slots)
    if outlook is None or len(held) != 1:
        return None
    (device_type,) = held
    return outlook.speed.rate(device_type, placement.count(Role.WORKER), placement.count(Role.SERVER))
