"""List entries made a moment ago: a submission is written and answered with the same one."""

from muster.daemon.gang.state import GangState
from muster.daemon.learn import Progress
from muster.daemon.loop.job_summaries import JobSummary, record_of
from muster.model.view import JobState
from muster.wire.api.job_records import JobRecord

MOST = 1_000
"""Entries kept: those of a few turns."""

_Made = tuple[JobSummary, JobState, GangState | None, JobRecord]


class RecentRecords:
    """Makes list entries, each once as long as nothing about its job changes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._made: dict[int, _Made] = {}

    def record(
        self, summary: JobSummary, state: JobState, gang: GangState | None, progress: Progress | None
    ) -> JobRecord:
        """Return the entry of a job; progress is different every time."""
        if progress is not None:
            return record_of(summary, state, gang, progress)
        made = self._made.get(state.number)
        # By identity: they are frozen, and every change makes new ones.
        if made is not None and made[0] is summary and made[1] is state and made[2] is gang:
            return made[3]
        if len(self._made) >= self._most:
            self._made.clear()
        found = record_of(summary, state, gang, None)
        self._made[state.number] = summary, state, gang, found
        return found
