"""The daemon's log: what was decided, ordered and seen, a line for every fact but those of a flood."""

from collections.abc import Mapping, Sequence

import structlog

from muster.daemon.service.reading.event_text import text_of
from muster.model.event import Submitted
from muster.model.job import Job
from muster.model.task import Fact, job_of
from muster.model.view import JobState

log = structlog.get_logger()


TOGETHER = 4
"""Submissions of one turn that are logged as one line: in a flood, lines take a tenth of the time."""


def log_facts(
    facts: Sequence[Fact], live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> None:
    """Log facts that are in the journal now, with the names of their jobs."""
    submitted = [fact.job for fact in facts if isinstance(fact, Submitted)]
    if len(submitted) >= TOGETHER:
        first, last = submitted[0], submitted[-1]
        text = f"{len(submitted)} jobs submitted: {_named(first)} to {_named(last)}"
        log.info(Submitted.__name__, jobs=len(submitted), text=text)
        facts = [fact for fact in facts if not isinstance(fact, Submitted)]
    for fact in facts:
        log.info(type(fact).__name__, **_job(job_of(fact), live, ended), text=text_of(fact))


def _named(job: Job) -> str:
    return f"{job.number} ({job.full_name})"


def _job(
    number: int | None, live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> dict[str, object]:
    if number is None:
        return {}
    state = live.get(number) or ended.get(number)
    return {"job": number} if state is None else {"job": number, "name": state.job.name}
