"""Sessions end when their users leave, which nothing foretells, or by their time limit."""

from math import inf

from muster.foresight.quantiles import TimeInterval
from muster.model.job import Job
from muster.model.view import JobState


def is_session(job: Job) -> bool:
    """Whether people attach to it, and end it."""
    return job.program.interactive is not None


def limit_end(state: JobState, start: TimeInterval | None) -> TimeInterval:
    """Return when its time limit ends a job; never, as far as is known, without one.

    `start`: when it starts; None: it has."""
    limit = state.job.program.time
    if limit is None or (start is None and state.started is None):
        return TimeInterval(inf, inf, inf)
    if start is None:
        assert state.started is not None
        start = TimeInterval(state.started, state.started, state.started)
    return TimeInterval(start.middle + limit, start.low + limit, start.high + limit)
