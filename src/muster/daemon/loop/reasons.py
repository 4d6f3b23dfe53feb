"""What the decisions of a cycle say about jobs: facts for the journal, and their summaries."""

from collections import Counter
from collections.abc import Iterable, Mapping

from muster.core.why.words import names_for, tell
from muster.daemon.loop.job_summaries import JobSummary
from muster.daemon.story.decided_fact import decided_fact
from muster.model.decision import Decision, Kind
from muster.model.task import Fact
from muster.model.view import View


def explained(
    decisions: Iterable[Decision], view: View, summaries: Mapping[int, JobSummary], now: float
) -> tuple[list[Fact], dict[int, JobSummary]]:
    """Return decisions and new reasons for waiting as facts, and the summaries they change."""
    facts: list[Fact] = []
    changed: dict[int, JobSummary] = {}
    for decision in decisions:
        if decision.kind is Kind.REPLAN:
            continue  # `Replanned` tells it all; why the job runs is unchanged
        before = summaries[decision.job]
        name_of = names_for(view, decision.job)
        summary = before.explain(decision.reason, name_of)
        if summary is not before:
            changed[decision.job] = summary
        if decision.kind is not Kind.WAIT or before.code != decision.reason.code:
            text = summary.text or tell(decision.reason, name_of)
            facts.append(decided_fact(decision, text, now))
    return facts, changed


def counted(
    decisions: Iterable[Decision], summaries: Mapping[int, JobSummary]
) -> Mapping[tuple[str, str], int]:
    """Count decisions by kind and reason, but not that a job waits for the reason it had."""
    return Counter(
        (each.kind.value, each.reason.code.value)
        for each in decisions
        if each.kind is not Kind.WAIT or summaries[each.job].code != each.reason.code
    )
