"""Facts about sweeps as text."""

from muster.model import sweep as s


def sweep_fact_text(fact: s.SweepFact) -> str:  # noqa: PLR0911 (one line for each kind)
    """Describe a fact about a sweep or one of its members."""
    match fact:
        case s.SweepSubmitted():
            return f"sweep of {fact.sweep.size} members submitted by {fact.sweep.user}"
        case s.MemberSubmitted():
            return f"entered the queue, a member of sweep {fact.sweep}"
        case s.RungReached():
            value = "no number" if fact.value is None else f"{fact.value:.4g}"
            return f"reached rung {fact.rung + 1} with {value}"
        case s.MemberPromoted():
            return f"among the best of rung {fact.rung + 1}: goes on"
        case s.SweepResized():
            return f"at most {fact.at_most or 'any number of'} members at once, set by {fact.by}"
        case s.SweepStopped():
            return f"sweep stopped by {fact.by}"
        case s.SweepDependencyMet():
            return f"what it waited for has ended: {fact.parent}"
        case s.SweepSkipped():
            return f"skipped: {fact.why}"
        case s.SweepEnded():
            return "all members are over"
