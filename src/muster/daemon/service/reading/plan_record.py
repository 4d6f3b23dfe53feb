"""The plan of a job, as the API has it."""

from muster.core.why.words import plan_words
from muster.daemon.learn import Beliefs
from muster.model.view import JobState
from muster.wire.api.records import PlanRecord


def plan_record(state: JobState | None, beliefs: Beliefs) -> PlanRecord | None:
    """Return the plan in force; None if there is none, or the job has ended."""
    if state is None or state.plan is None or state.placement is None:
        return None
    plan = state.plan
    return PlanRecord(
        plan.sync.value,
        plan.step,
        plan_words(plan),
        state.planned,
        beliefs.step_of(state.number, plan.sync),
        plan.batch,
        plan.owners,
        plan.runner_up.value if plan.runner_up is not None else None,
        plan.runner_up_step,
    )
