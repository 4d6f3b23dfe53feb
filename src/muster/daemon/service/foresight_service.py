"""Requests about forecasts and how they came true."""

from muster.daemon.foresight.account import kept_of
from muster.daemon.service.protocol import Caller
from muster.daemon.service.reading.history_service import HistoryService
from muster.foresight.score import reliability, score
from muster.wire.api.foresight_records import (
    AccuracyGroup,
    AccuracyRecord,
    JobForecastRecord,
    ReliabilityPoint,
)

MOST = 10_000
"""Latest forecasts that are scored at once."""


class ForesightService(HistoryService):
    """Answers requests about the future, and about what was said of it."""

    async def accuracy(
        self, caller: Caller, what: str, since: float, pool: str | None = None
    ) -> AccuracyRecord:
        rows = await self._read(lambda: self._store.forecasts(since, pool, MOST))
        every = [kept_of(row) for row in rows if row.what == what]
        kept = [each for each in every if each.said.is_known(each.made)]
        groups = tuple(
            AccuracyGroup(
                each.by,
                each.name,
                each.forecasts,
                each.covered,
                each.early,
                each.late,
                each.error,
                each.bias,
                each.width,
            )
            for each in score(kept)
        )
        points = tuple(ReliabilityPoint(*each) for each in reliability(kept))
        return AccuracyRecord(what, since, len(kept), len(every) - len(kept), groups, points)

    async def forecasts(self, caller: Caller, which: str) -> list[JobForecastRecord]:
        record = await self._record(which, caller)
        rows = await self._read(self._store.job_forecasts, record.number)
        return [
            JobForecastRecord(
                row.what, row.mark, row.made, row.low, row.middle, row.high, row.rests_on, row.came
            )
            for row in rows
        ]
