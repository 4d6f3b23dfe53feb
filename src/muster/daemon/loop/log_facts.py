"""The daemon's log: a line for every fact, so that it tells what was decided, ordered and seen."""

from collections.abc import Mapping, Sequence

import structlog

from muster.daemon.service.event_text import text_of
from muster.model.task import Fact, job_of
from muster.model.view import JobState

log = structlog.get_logger()


def log_facts(
    facts: Sequence[Fact], live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> None:
    """Log facts that are in the journal now, with the names of their jobs."""
    for fact in facts:
        log.info(type(fact).__name__, **_job(job_of(fact), live, ended), text=text_of(fact))


def _job(
    number: int | None, live: Mapping[int, JobState], ended: Mapping[int, JobState]
) -> dict[str, object]:
    if number is None:
        return {}
    state = live.get(number) or ended.get(number)
    return {"job": number} if state is None else {"job": number, "name": state.job.name}
