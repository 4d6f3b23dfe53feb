"""The service of a daemon: requests about jobs, and who may make them."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

from muster.core.cycle.options import admission_key
from muster.core.state.admit import refuse
from muster.core.state.evolve import evolve
from muster.daemon.gang.state import Sight
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.service.administration import Administration
from muster.daemon.service.event_text import change_of
from muster.daemon.service.forecast import Question, forecast
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
)
from muster.daemon.service.records import task_records
from muster.model.event import Cancelled, PreemptBegun, Reshaped, Submitted
from muster.model.job import Job, Role, RoleSpec
from muster.model.task import Fact, LogPiece, StopAsked, job_of
from muster.model.view import JobState, Phase
from muster.policy.registry import POLICIES
from muster.wire.records import OVER, ChangeRecord, Forecast, JobDetail, JobPage, JobRecord

ADMITTED = 1_000
"""Shapes of requests whose admission is cached: most submissions repeat one."""
PAGE = 500
"""Changes read at once."""
HISTORY = 100
"""Changes in a job's detail."""


class JobService(Administration):
    """Answers requests as the protocol says; every change is posted to the daemon as facts."""

    def __init__(self, daemon: Daemon, cluster_name: str) -> None:
        super().__init__(daemon, cluster_name)
        self._number = daemon.store.highest()
        self._keys: dict[tuple[str, str], asyncio.Lock] = {}
        """Of submissions in progress."""

    # --- jobs ---

    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        if key is None:
            return await self._take_in(job, None)
        # Of two concurrent requests with one key the second waits for the first.
        async with self._keys.setdefault((job.user, key), asyncio.Lock()):
            try:
                known = await self._read(self._store.key, job.user, key)
                if known is not None:
                    return await self._record(known)
                return await self._take_in(job, key)
            finally:
                self._keys.pop((job.user, key), None)

    async def _take_in(self, job: Job, key: str | None) -> JobRecord:
        self._refuse_trouble()
        problem = self._problem(job)
        if problem:
            raise RefusedError(problem)
        # No await in between: two submissions never get the same number.
        self._number += 1
        job = replace(job, number=self._number, name=job.name or f"job-{self._number}")
        entry = Entry([Submitted(job, self._daemon.clock.now())])
        entry.key = (job.user, key, job.number) if key is not None else None
        try:
            await self._put(entry)
        except ConflictError:
            raise ConflictError(
                f"a job named {job.name!r} is still active; choose another name, or stop it first"
            ) from None
        self._daemon.metrics.submitted()
        return await self._record(job.number)

    def _problem(self, job: Job) -> str:
        """Why the job can never run here; empty if it can."""
        view = self._daemon.view
        key = (id(view.pools), *admission_key(job))
        if key not in self._admitted:
            if len(self._admitted) >= ADMITTED:
                self._admitted.clear()
            found = refuse(job, view.cluster, view.pools)
            near = found.nearest if found else None
            hint = f" (nearest that could: {near.field}: {near.value})" if near else ""
            self._admitted[key] = f"can never run on this cluster: {found.why}{hint}" if found else ""
        return self._admitted[key]

    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        problem = self._problem(job)
        if problem:
            return Forecast(False, "", problem, None, None, "", problem)
        daemon, now = self._daemon, self._daemon.clock.now()
        job = replace(job, name=f"{job.name or 'job'} (a forecast)", number=self._number + 1)
        view = evolve(daemon.view, [Submitted(job, now)])
        known = daemon.beliefs.outlooks(view, now)
        question = Question(replace(view, outlooks=known), job.number, now)
        return await self._read(forecast, POLICIES[daemon.state.policy], question)

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        limit = max(1, min(query.limit, 1_000))
        found = await self._read(
            lambda: self._store.jobs(
                statuses=query.statuses,
                user=query.user,
                users_or_pools=None if caller.admin else (caller.user, tuple(self._shared)),
                pool=query.pool,
                name=query.name,
                before=_cursor(query.cursor),
                limit=limit + 1,
            )
        )
        page = tuple(self._fresh(record) for record in found[:limit])
        return JobPage(page, str(page[-1].number) if len(found) > limit else None)

    def _fresh(self, record: JobRecord) -> JobRecord:
        """A live job's record as it is now, not as last written."""
        state = self._daemon.view.jobs.get(record.number)
        if state is None or record.number not in self._daemon.summaries:
            return record
        if record.status == Phase.WAITING and state.phase is Phase.WAITING:
            return record  # without tasks it only changes by facts, which are written with it
        return self._daemon.record(record.number)

    async def job(self, caller: Caller, which: str) -> JobDetail:
        record = await self._record(which, caller)
        gang = self._daemon.state.gangs.get(record.number)
        sight = self._daemon.sights.get(record.number, Sight())
        entries = await self._read(
            lambda: self._store.changes(None, number=record.number, limit=HISTORY)
        )
        return JobDetail(
            record,
            task_records(gang, sight, entries),
            tuple(change_of(entry) for entry in entries),
            tuple(await self._read(self._store.predictions, record.number)),
            tuple(self._daemon.beliefs.losses(record.number)),
        )

    async def stop(self, caller: Caller, which: str) -> JobRecord:
        record = await self._record(which, caller)
        number = record.number
        state, summary = self._daemon.view.jobs.get(number), self._daemon.summaries.get(number)
        if state is None or summary is None or record.status in OVER or summary.stopping:
            return record
        now = self._daemon.clock.now()
        gang = self._daemon.state.gangs.get(number)
        facts: list[Fact] = [StopAsked(number, now), *_preempt(state, now)]
        if state.phase is Phase.WAITING and not (gang and gang.tasks):
            facts.append(Cancelled(number, now))
        await self._put(Entry(facts))
        return await self._record(number, caller)

    async def resize(self, caller: Caller, which: str, shape: Shape) -> JobRecord:
        record = await self._record(which, caller)
        state = self._daemon.view.jobs.get(record.number)
        if state is None or record.status in OVER:
            raise ConflictError(f"job {record.number} ({record.name}) is over: {record.status}")
        if not 1 <= shape.least <= shape.most:
            raise RefusedError(
                f"{shape.least}..{shape.most} is not a range of workers; write for example 2..4"
            )
        wanted = tuple(_reshaped(spec, shape) for spec in state.job.roles)
        problem = self._problem(replace(state.job, roles=wanted))
        if problem:
            raise RefusedError(problem)
        free = sum(node.free.bit_count() for node in self._daemon.view.cluster.nodes)
        roles = tuple(_from_what_it_has(spec, state, free) for spec in wanted)
        await self._put(Entry([Reshaped(record.number, roles, self._daemon.clock.now())]))
        return await self._record(record.number, caller)

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
        entries = await self._read(lambda: self._store.changes(after, number=number, limit=limit))
        if not caller.admin and which is None:
            entries = [each for each in entries if await self._may_see(caller, job_of(each.fact))]
        return [change_of(entry) for entry in entries]

    async def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[ChangeRecord]:
        at = after
        while True:
            # Checked before the changes are read, so that they include the end.
            over = which is not None and (await self._record(which, caller)).status in OVER
            seen = self._daemon.seq
            found = await self.changes(caller, at, which)
            for change in found:
                at = change.seq
                yield change
            at = seen if at is None else at
            if not found:
                if over:
                    return
                await self._daemon.grown(max(seen, at))

    # --- which job, and whose ---

    async def _record(self, which: str | int, caller: Caller | None = None) -> JobRecord:
        """Find a job by number or name, if the caller may see it; the newest of that name."""
        number = which if isinstance(which, int) else self._number_of(which)
        if number is None:
            found = await self._read(self._store.named, str(which))
        elif number in self._daemon.view.jobs and number in self._daemon.summaries:
            found = self._daemon.record(number)
        else:
            found = await self._read(self._store.job, number)
        if found is None or (caller is not None and not self._may(caller, found)):
            raise NotFoundError(f"you have no job {str(which)!r}; see: muster ps -a")
        return found

    def _number_of(self, which: str) -> int | None:
        """The number that is meant: that of a live job of this name, else the number itself."""
        digits = which.isascii() and which.isdigit() and len(which) < 19
        return self._daemon.view.names.get(which, int(which) if digits else None)

    def _may(self, caller: Caller, record: JobRecord) -> bool:
        return caller.admin or record.user == caller.user or record.pool in self._shared

    async def _may_see(self, caller: Caller, job: int | None) -> bool:
        if job is None:
            return False
        try:
            await self._record(job, caller)
        except NotFoundError:
            return False
        return True


def _cursor(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RefusedError("not a cursor; pass the `next` of the previous page")
    return int(text)


def _preempt(state: JobState, now: float) -> list[PreemptBegun]:
    """Preempt a job with tasks, unless it is stopping already."""
    if state.phase in (Phase.WAITING, Phase.PREEMPTING):
        return []
    return [PreemptBegun(state.number, state.generation, now)]


def _reshaped(spec: RoleSpec, shape: Shape) -> RoleSpec:
    if spec.role is Role.WORKER:
        return replace(spec, gang=shape.least, least=shape.least, most=shape.most)
    if shape.servers is None:
        return spec
    return replace(spec, gang=shape.servers, least=shape.servers, most=shape.servers)


def _from_what_it_has(spec: RoleSpec, state: JobState, free: int) -> RoleSpec:
    """Keep a running job at its size if a larger gang does not fit now: it grows later, and need not
    stop."""
    has = state.placement.count(spec.role) if state.placement else 0
    if not has or (spec.gang - has) * spec.need.devices <= free:
        return spec
    return replace(spec, gang=min(spec.gang, has))
