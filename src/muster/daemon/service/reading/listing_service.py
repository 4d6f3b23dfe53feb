"""Lists of jobs: live ones as the daemon knows them, those that ended from the store."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import chain, islice

from muster.daemon.loop.foretold import foretold
from muster.daemon.service.governing.administration import Administration
from muster.daemon.service.protocol import ME, Caller, JobQuery
from muster.daemon.service.reading.job_lists import (
    Asked,
    Found,
    cursor_after,
    groups_asked,
    newest_first,
)
from muster.model.renew import renewer
from muster.model.view import Phase
from muster.store.job_filter import JobFilter
from muster.wire.api.records import LIVE, OVER, JobPage, JobRecord

LISTED_AT_ONCE = 100
"""Entries made without yielding to other requests: some 2 ms."""
_renewed = renewer(JobRecord)


class ListingService(Administration):
    """Finds jobs that the caller may see."""

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        limit = max(1, min(query.limit, 1_000))
        find = self._active_first if query.active_first else self._newest_first
        found, counts = await find(self._filter(caller, query), query, limit + 1)
        more = len(found) > limit
        after = cursor_after(found[limit - 1], query) if more else None
        return JobPage(tuple(found[:limit]), after, counts)

    def _filter(self, caller: Caller, query: JobQuery) -> JobFilter:
        user = caller.user if query.user == ME else query.user
        shown = self._visible(caller)
        return JobFilter(user, query.pool, query.name, shown, query.labels, query.since, query.until)

    async def _newest_first(self, wanted: JobFilter, query: JobQuery, limit: int) -> Found:
        find = partial(newest_first, self._store, wanted, query.statuses, query.cursor, limit)
        found, counts = await self._read(find)
        return [self._fresh(record) for record in found], counts

    async def _active_first(self, wanted: JobFilter, query: JobQuery, limit: int) -> Found:
        asked, first = groups_asked(query.statuses, query.cursor), query.cursor is None
        if wanted.by_owner:
            return await self._live_first(wanted, asked, limit, first)
        # Names, labels and times are indexed in the store alone.
        counted = (*LIVE, *OVER) if first else ()
        found, counts = await self._stored(wanted, asked, limit, counted)
        return [self._fresh(record) for record in found], counts

    async def _live_first(self, wanted: JobFilter, asked: Asked, limit: int, first: bool) -> Found:
        """Return jobs by groups. The store is asked for those that ended only if the page has room, and
        how many they are only if it has not told already."""
        groups, before = asked
        live = [group for group in groups if group[0] in LIVE]
        counts = self._daemon.live.counts(wanted.shows) if first else Counter[str]()
        found = await self._listed(self._live_numbers(wanted, (live, before), limit))
        ended = self._store.ended_counts(wanted) if first else {}
        left = groups[len(live) :] if len(found) < limit else []
        if left or ended is None:
            rest = left, None if live else before
            counted = OVER if ended is None else ()
            more, told = await self._stored(wanted, rest, limit - len(found), counted)
            known = {record.number for record in found}  # one may have ended meanwhile
            found += [record for record in more if record.number not in known]
            ended = told if ended is None else ended
        counts.update(ended)
        return found, dict(counts)

    async def _stored(
        self, wanted: JobFilter, asked: Asked, limit: int, counted: tuple[str, ...]
    ) -> Found:
        groups, before = asked
        ask = partial(self._store.grouped, before=before, limit=limit, counted=counted)
        return await self._read(ask, wanted, groups)

    def _live_numbers(self, wanted: JobFilter, asked: Asked, limit: int) -> list[int]:
        """Return the numbers of live jobs in the order of a list."""
        groups, before = asked
        rows = (
            self._daemon.live.newest(wanted.shows, group, None if place else before)
            for place, group in enumerate(groups)
        )
        return list(islice(chain.from_iterable(rows), limit))

    async def _listed(self, numbers: Iterable[int]) -> list[JobRecord]:
        """Return the entries of jobs that were live a moment ago."""
        found = []
        for place, number in enumerate(numbers, 1):
            record = await self._numbered(number)
            if record is not None:
                found.append(record)
            if place % LISTED_AT_ONCE == 0:
                await asyncio.sleep(0)
        return found

    async def _numbered(self, number: int) -> JobRecord | None:
        daemon = self._daemon
        if number in daemon.view.jobs and number in daemon.summaries:
            return daemon.recent.placed(daemon.record(number), daemon.places.place(number))
        return await self._read(self._store.job, number)

    def _fresh(self, record: JobRecord) -> JobRecord:
        """A live job's record as it is now, not as last written."""
        state = self._daemon.view.jobs.get(record.number)
        if state is None or record.number not in self._daemon.summaries:
            return record
        if record.status == Phase.WAITING and state.phase is Phase.WAITING:
            return self._placed(record)  # without tasks it only changes by facts, written with it
        return self._daemon.record(record.number)

    def _placed(self, record: JobRecord) -> JobRecord:
        """A waiting job's record with its place in the queue and its forecast."""
        daemon = self._daemon
        place = daemon.places.place(record.number)
        forecast = daemon.follower.forecasts.get(record.number)
        if forecast is not None:
            return _renewed(record, position=place, **foretold(forecast))
        return record if place is None else _renewed(record, position=place)
