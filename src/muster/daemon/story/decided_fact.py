"""A decision as it is kept in the journal: its reason in words, and the figures of a change."""

from muster.model.decision import Decision, Kind
from muster.model.task import Decided


def decided_fact(decision: Decision, text: str, now: float) -> Decided:
    """Return the fact that a cycle decided so; of a wait only why."""
    reason = decision.reason
    if decision.kind is Kind.WAIT:
        return Decided(decision.job, decision.kind, reason.code, text, now)
    return Decided(
        decision.job,
        decision.kind,
        reason.code,
        text,
        now,
        served=reason.served,
        given=reason.given,
        cost=reason.cost,
        gain=reason.gain,
        speed=reason.speed,
    )
