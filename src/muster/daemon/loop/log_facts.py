"""The daemon's log: what was decided, ordered and seen, a line for every fact but those of a flood."""

from collections.abc import Mapping, Sequence

import structlog

from muster.daemon.service.reading.event_text import text_of
from muster.model.decision import Kind
from muster.model.event import Submitted
from muster.model.task import Decided, Fact, job_of
from muster.model.view import JobState

log = structlog.get_logger()


TOGETHER = 4
"""Submissions, or waits for one reason, of one turn that are logged as one line: in a flood, lines take
a tenth of the time."""


def log_facts(
    facts: Sequence[Fact], live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> None:
    """Log facts that are in the journal now, with the names of their jobs."""
    many: dict[str, list[Fact]] = {}
    for fact in facts:
        many.setdefault(_flood_of(fact), []).append(fact)
    single = many.pop("", [])
    for kind, alike in many.items():
        if len(alike) < TOGETHER:
            single += alike
        else:
            first, last = (_named(fact, live) for fact in (alike[0], alike[-1]))
            text = f"{len(alike)} jobs {kind}: {first} to {last}"
            log.info(type(alike[0]).__name__, jobs=len(alike), text=text)
    for fact in single:
        log.info(type(fact).__name__, **_job(job_of(fact), live, ended), text=text_of(fact))


def _flood_of(fact: Fact) -> str:
    """Return what happens to many jobs at once; empty: it is told of each."""
    if isinstance(fact, Submitted):
        return "submitted"
    if isinstance(fact, Decided) and fact.kind == Kind.WAIT:
        return f"wait ({fact.code})"
    return ""


def _named(fact: Fact, live: Mapping[int, JobState]) -> str:
    state = live.get(job_of(fact) or 0)
    return f"{job_of(fact)} ({state.job.full_name})" if state else f"{job_of(fact)}"


def _job(
    number: int | None, live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> dict[str, object]:
    if number is None:
        return {}
    state = live.get(number) or ended.get(number)
    return {"job": number} if state is None else {"job": number, "name": state.job.name}
