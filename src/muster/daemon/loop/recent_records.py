"""List entries made a moment ago: a submission is written and answered with the same one."""

from operator import is_

from muster.daemon.gang.state import GangState
from muster.daemon.learn import Progress
from muster.daemon.loop.job_summaries import JobSummary, record_of
from muster.foresight.play import JobForecast
from muster.model.renew import renewer
from muster.model.view import JobState
from muster.wire.api.job_records import JobRecord

MOST = 2_000
"""Entries kept at least, and half of those kept at most: some cycles of a flood, and 6 MB."""

_Made = tuple[JobSummary, JobState, GangState | None, JobForecast | None, JobRecord]
_renewed = renewer(JobRecord)


class RecentRecords:
    """Makes list entries, each once as long as nothing about its job changes."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._made: dict[int, _Made] = {}
        self._before: dict[int, _Made] = {}
        """Those made before them, of which the ones in use are taken over."""
        self._placed: dict[int, tuple[JobRecord, JobRecord]] = {}
        """Entries without and with a place in the queue."""

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
        number, of = state.number, (summary, state, gang, forecast)
        made = self._made.get(number) or self._before.get(number)
        # By identity: they are frozen, and every change makes new ones.
        if made is None or not all(map(is_, made, of)):
            made = (*of, record_of(summary, state, gang, None, forecast))
        if len(self._made) >= self._most:
            self._made, self._before = {}, self._made
        self._made[number] = made
        return made[4]

    def placed(self, record: JobRecord, place: int | None) -> JobRecord:
        """Return an entry with a place in the queue, which changes with every cycle."""
        if place is None:
            return record
        known = self._placed.get(record.number)
        if known is None or known[0] is not record or known[1].position != place:
            if len(self._placed) >= self._most:
                self._placed.clear()
            known = self._placed[record.number] = record, _renewed(record, position=place)
        return known[1]
