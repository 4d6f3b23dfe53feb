"""Step 6: what was decided about a job, as a decision with its reason."""

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.outcome import Change
from muster.core.why.explain import Explainer
from muster.core.why.gains import with_gain
from muster.model.decision import Decision, Kind
from muster.model.placement import Placement
from muster.model.plan import ChosenPlan
from muster.model.reason import Code, Reason
from muster.model.view import JobState

_BRIEF = {code: Reason(code) for code in Code}


def waiting_reason(cycle: CycleState, state: JobState, explainer: Explainer | None) -> Reason:
    """Return why a job waits; without an explainer only the code."""
    if explainer is not None:
        return explainer.why_waiting(state)
    return _BRIEF[cycle.outcome.obstacles.get(state.number, Code.WAITING_POLICY)]


def changed_decision(
    cycle: CycleState, state: JobState, explainer: Explainer | None
) -> Decision | None:
    """Return what changes about a job; None: nothing. Without an explainer its reason is brief."""
    found = _changed(cycle, state)
    if found is None or explainer is None:
        return found
    return with_gain(cycle, explainer.rivals, state, found)


def _changed(cycle: CycleState, state: JobState) -> Decision | None:
    outcome, number = cycle.outcome, state.number
    if number in outcome.stops:
        return Decision(Kind.PREEMPT, number, state.generation, outcome.stops[number])
    kinds = (
        (Kind.START, outcome.starts),
        (Kind.RESIZE, outcome.resizes),
        (Kind.MIGRATE, outcome.moves),
    )
    for kind, changes in kinds:
        if number in changes:
            return _decision(cycle, kind, state, changes[number])
    return None


def gang_decision(cycle: CycleState, state: JobState) -> Decision | None:
    """Return how a job starts before it grows into what is idle; None: it does not grow."""
    gang, number = cycle.gangs.get(state.number), state.number
    if gang is None or gang.placement is cycle.outcome.starts[number].placement:
        return None
    return _decision(cycle, Kind.START, state, gang)


def _decision(cycle: CycleState, kind: Kind, state: JobState, change: Change) -> Decision:
    given = (change.reason, change.placement, change.batch)
    plan = _plan_for(cycle, state, change.placement)
    return Decision(kind, state.number, state.generation + 1, *given, plan)


def _plan_for(cycle: CycleState, state: JobState, placement: Placement) -> ChosenPlan | None:
    """Return how the tasks of a placement share the work, if enough is known of the training."""
    shape = cycle.shape_of(state)
    return None if shape is None else cycle.standing.plans.choose(state.job, shape, placement)
