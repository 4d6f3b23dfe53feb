"""Requests about the past: curves of trainings, and who held which devices when."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby

from muster.daemon.service.job_service import JobService
from muster.daemon.service.protocol import Caller, RefusedError
from muster.daemon.timeline.curve_keeper import LOSS
from muster.daemon.timeline.rates import rates
from muster.store.batch import CurvePoint, Span
from muster.store.spans import OwnedSpan
from muster.wire.api.history_records import CurveRecord, JobCurves, SpanRecord, TimelinePage
from muster.wire.api.records import JobDetail, JobRecord

SPANS = 1_000
"""Most spans of a job, or of a page."""
LOSSES = 200
"""Losses in a job's detail."""
DAY = 86_400.0


class HistoryService(JobService):
    """Answers requests about the past as well."""

    async def job(self, caller: Caller, which: str) -> JobDetail:
        detail = await super().job(caller, which)
        if detail.losses:  # as this daemon has heard them
            return detail
        points = await self._read(self._store.curves, detail.job.number)
        known = [(each.step, each.value) for each in points if each.what == LOSS]
        return replace(detail, losses=tuple(known[:: len(known) // LOSSES + 1]))

    async def curves(self, caller: Caller, which: str, after: float = 0.0) -> JobCurves:
        record = await self._record(which, caller)
        points = await self._read(self._store.curves, record.number, after)
        latest = [each for each in self._daemon.curves.latest(record.number) if each.at > after]
        spans = await self._read(self._store.spans, record.number, SPANS)
        told = tuple(_record(span, record.number, record.name, record.user) for span in spans)
        return JobCurves(record.number, _curves([*points, *latest]), told)

    async def timeline(
        self,
        caller: Caller,
        since: float | None = None,
        until: float | None = None,
        cursor: str | None = None,
        limit: int = SPANS,
    ) -> TimelinePage:
        end = self.now() if until is None else until
        begin = end - DAY if since is None else since
        limit = max(1, min(limit, SPANS))
        found = await self._read(self._store.timeline, begin, end, _place(cursor), limit + 1)
        page = found[:limit]
        last = page[-1].span if len(found) > limit else None
        return TimelinePage(
            begin,
            end,
            tuple(self._shown(caller, each) for each in page),
            None if last is None else f"{last.began!r}:{last.number}",
        )

    def _shown(self, caller: Caller, owned: OwnedSpan) -> SpanRecord:
        """A span as the caller may see it: that a device was in use, but not by whom and why."""
        span, name, user, pool = owned
        own = JobRecord(span.number, name or "", user or "", pool or "", "")
        if not self._may(caller, own):
            hidden = SpanRecord(span.began, span.ended, span.status, 0, 0, dict(span.devices))
            return replace(hidden, pool=pool)
        return replace(_record(span, span.number, name, user), pool=pool)


def _record(span: Span, number: int, name: str | None, user: str | None) -> SpanRecord:
    return SpanRecord(
        span.began,
        span.ended,
        span.status,
        span.workers,
        span.servers,
        dict(span.devices),
        span.code,
        span.reason,
        number,
        name,
        user,
    )


def _place(cursor: str | None) -> tuple[float, int] | None:
    """Return beginning and job of the last span of the page before."""
    if cursor is None:
        return None
    began, _, number = cursor.partition(":")
    try:
        return float(began), int(number)
    except ValueError:
        raise RefusedError(f"{cursor!r} is not a cursor; give back the `next` of a page") from None


def _curves(points: Iterable[CurvePoint]) -> tuple[CurveRecord, ...]:
    """Return points as curves, the loss first."""
    order = sorted(points, key=lambda each: (each.what != LOSS, each.what, each.step))
    return tuple(_curve(what, [*own]) for what, own in groupby(order, lambda each: each.what))


def _curve(what: str, points: list[CurvePoint]) -> CurveRecord:
    return CurveRecord(
        what,
        tuple(each.step for each in points),
        tuple(each.at for each in points),
        tuple(each.value for each in points),
        tuple(each.workers for each in points),
        tuple(each.samples for each in points),
        tuple(rates(points)),
    )
