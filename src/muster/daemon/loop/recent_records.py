"""List entries made a moment ago: a submission is written and answered with the same one."""

from operator import is_

from muster.daemon.gang.state import GangState
from muster.daemon.learn import Progress
from muster.daemon.loop.job_summaries import JobSummary, record_of
from muster.foresight.play import JobForecast
from muster.model.view import JobState
from muster.wire.api.job_records import JobRecord

MOST = 1_000
"""Entries kept: those of a few turns."""

_Made = tuple[JobSummary, JobState, GangState | None, JobForecast | None, JobRecord]


class RecentRecords:
    """Makes list entries, each once as long as nothing about its job changes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._made: dict[int, _Made] = {}

    def record(
        self,
        summary: JobSummary,
        state: JobState,
        gang: GangState | None,
        progress: Progress | None,
        forecast: JobForecast | None = None,
    ) -> JobRecord:
        """Return the entry of a job; progress is different every time."""
        if progress is not None:
            return record_of(summary, state, gang, progress, forecast)
        made, of = self._made.get(state.number), (summary, state, gang, forecast)
        # By identity: they are frozen, and every change makes new ones.
        if made is not None and all(map(is_, made, of)):
            return made[4]
        if len(self._made) >= self._most:
            self._made.clear()
        found = record_of(summary, state, gang, None, forecast)
        self._made[state.number] = (*of, found)
        return found
