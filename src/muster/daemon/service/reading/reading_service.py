"""Requests that read jobs: lists, one in detail, its log and its changes."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from muster.daemon.gang.state import Sight
from muster.daemon.loop.dependents import ENDS
from muster.daemon.service.job_names import number_in
from muster.daemon.service.protocol import (
    Caller,
    ForbiddenError,
    NotFoundError,
)
from muster.daemon.service.reading.event_text import change_of
from muster.daemon.service.reading.job_lists import newest_first
from muster.daemon.service.reading.listing_service import ListingService
from muster.daemon.service.reading.plan_record import plan_record
from muster.daemon.service.reading.program_record import program_record
from muster.daemon.service.reading.records import task_records
from muster.daemon.service.reading.submissions import submitted_job
from muster.daemon.service.submitting.file_reach import reach_caveats
from muster.files.job.job_request import request_of
from muster.model.job import Job
from muster.model.task import LogPiece
from muster.store.job_filter import JobFilter
from muster.wire.api.records import (
    OVER,
    ChangeRecord,
    JobDetail,
    JobRecord,
)

ENDED = tuple(fact.__name__ for fact in ENDS)
"""Kinds of changes after which nothing more happens to a job."""
PAGE = 500
"""Changes read at once."""
UNENFORCED = "not enforced"
"""In the caveat about limits of memory and cores."""
FLOOD, GATHER = 10, 0.1
"""Changes found at once from which more are about to come, and s until they are read together: a reader
of all changes would else look into the journal with every write."""
HISTORY = 100
"""Changes in a job's detail."""


class ReadingService(ListingService):
    """Finds jobs that the caller may see, and tells about them."""

    async def job(self, caller: Caller, which: str) -> JobDetail:
        record = await self._record(which, caller)
        gang = self._daemon.state.gangs.get(record.number)
        sight = self._daemon.sights.get(record.number, Sight())
        entries = await self._read(
            lambda: self._store.changes(None, number=record.number, limit=HISTORY)
        )
        job = await self._submitted(record.number)
        return JobDetail(
            record,
            task_records(gang, sight, entries),
            tuple(change_of(entry) for entry in entries),
            tuple(await self._read(self._store.predictions, record.number)),
            tuple(self._daemon.beliefs.losses(record.number)),
            program_record(job.program) if job else None,
            self._caveats_of(job) if job else (),
            plan_record(self._daemon.view.jobs.get(record.number), self._daemon.beliefs),
            self._policy_of(record.pool),
        )

    def _policy_of(self, pool: str) -> str:
        """The policy that decides about jobs of a pool; empty: there is no such pool any more."""
        pools = self._daemon.view.pools
        return pools.policy_of(pool, self._daemon.state.policy) if pool in pools.pools else ""

    async def request(self, caller: Caller, which: str) -> dict[str, Any]:
        record = await self._record(which, caller)
        named = f"job {record.number} ({record.name})"
        if not caller.admin and record.user != caller.user:  # its environment may hold secrets
            raise ForbiddenError(f"{named} is {record.user}'s: only its owner may read its request")
        job = await self._submitted(record.number)
        if job is None:
            raise NotFoundError(f"the journal no longer has the request of {named}")
        return request_of(job)

    async def _submitted(self, number: int) -> Job | None:
        """The job; one that has ended as it was submitted; None: the journal no longer has it."""
        state = self._daemon.view.jobs.get(number)
        return state.job if state is not None else await self._read(submitted_job, self._store, number)

    def _caveats_of(self, job: Job) -> tuple[str, ...]:
        """What this job asks for and does not get here: limits, files that its nodes see."""
        limited = any(spec.need.memory or spec.need.millicores for spec in job.roles)
        limits = tuple(each for each in self._caveats if limited and UNENFORCED in each)
        return limits + reach_caveats(job, self._daemon.blind())

    async def log(
        self, caller: Caller, which: str, log: str, offset: int = 0, size: int = 65536
    ) -> LogPiece:
        record = await self._record(which, caller)
        name = f"{record.number}-{record.name}/{log}.log"
        try:
            return await self._read(self._daemon.executor.read_log, name, offset, size)
        except LookupError:
            raise NotFoundError(
                f"job {record.number} ({record.name}) has no log {log!r}; "
                f"see: muster show {record.number}"
            ) from None

    async def changes(
        self, caller: Caller, after: int | None, which: str | None = None, limit: int = PAGE
    ) -> list[ChangeRecord]:
        number = (await self._record(which, caller)).number if which is not None else None
        return await self._changes(caller, after, number, limit)

    async def _changes(
        self, caller: Caller, after: int | None, number: int | None, limit: int = PAGE
    ) -> list[ChangeRecord]:
        visible = self._visible(caller) if number is None else None
        entries = await self._read(self._store.changes, after, number, limit, visible)
        return [change_of(entry) for entry in entries]

    async def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[Sequence[ChangeRecord]]:
        # By number from here on: the name may be given to another job.
        number = (await self._record(which, caller)).number if which is not None else None
        at, over = after, False
        while True:
            # Checked before the changes are read, so that they include the end.
            over = over or (number is not None and (await self._record(number, caller)).status in OVER)
            seen = self._daemon.seq
            found = await self._changes(caller, at, number)
            if found:
                at = found[-1].seq
                # The store may know of the end before the daemon has adopted it.
                over = over or (number is not None and any(each.kind in ENDED for each in found))
                yield found
                if len(found) >= FLOOD and not over:
                    await asyncio.sleep(GATHER)
                continue
            if over:
                return
            # All up to here was looked at, whoever's it was.
            at = seen if at is None else max(at, seen)
            await self._daemon.grown(at)

    async def _record(self, which: str | int, caller: Caller | None = None) -> JobRecord:
        """Find a job by number, name or `user/name`, if the caller may see it."""
        number = which if isinstance(which, int) else number_in(which)
        if number is not None:
            found = await self._numbered(number)
        else:
            found = await self._named(str(which), caller)
        if found is None or (caller is not None and not self._may(caller, found)):
            raise NotFoundError(f"you have no job {str(which)!r}; see: muster ps -a")
        return found

    async def _named(self, which: str, caller: Caller | None) -> JobRecord | None:
        """Find a job by name: the live one, else the newest; the caller's own before all others."""
        user, slash, name = which.rpartition("/")
        if not slash and caller is not None:
            user = caller.user
        number = self._daemon.view.names.get(f"{user}/{name}")
        if number is not None:
            return await self._numbered(number)
        found = await self._read(self._store.named, user, name)
        if found is None and not slash and caller is not None:
            return await self._named_by_others(name, caller)
        return found

    async def _named_by_others(self, name: str, caller: Caller) -> JobRecord | None:
        """Find the newest job of a name among those the caller may see, if all are of one user."""
        wanted = JobFilter(name=name, users_or_pools=self._visible(caller))
        found, _ = await self._read(newest_first, self._store, wanted, (), None, PAGE)
        users = sorted({record.user for record in found})
        if len(users) > 1:
            ways = " or ".join(f"{user}/{name}" for user in users[:3])
            raise NotFoundError(f"several users have a job {name!r}: write {ways}, or its number")
        return await self._numbered(found[0].number) if found else None
