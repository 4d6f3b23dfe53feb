"""Turn decisions into the facts that are journalled before any command goes out."""

from muster.core.cycle.cycle import Decisions
from muster.model.decision import Decision, Kind
from muster.model.event import Event, MigrateBegun, PreemptBegun, Replanned, ResizeBegun, StartBegun

_BEGUN: dict[Kind, type[StartBegun | ResizeBegun | MigrateBegun]] = {
    Kind.START: StartBegun,
    Kind.RESIZE: ResizeBegun,
    Kind.MIGRATE: MigrateBegun,
}


def begun(decided: Decisions, now: float) -> list[Event]:
    """Return the events that `evolve` folds for these decisions; waiting has none."""
    found = (_event(decision, now) for decision in decided.decisions)
    return [event for event in found if event is not None]


def _event(decision: Decision, now: float) -> Event | None:
    if decision.kind is Kind.PREEMPT:
        return PreemptBegun(decision.job, decision.generation, now)
    if decision.kind is Kind.REPLAN and decision.plan is not None:
        return Replanned(decision.job, decision.generation, decision.plan, now)
    if decision.placement is None:
        return None
    make = _BEGUN[decision.kind]
    given = (decision.placement, now, decision.batch, decision.plan)
    return make(decision.job, decision.generation, *given)
