"""The service of a daemon: requests about jobs, and who may make them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from muster.core.cycle.options import admission_key
from muster.core.state.admit import refuse
from muster.core.state.evolve import evolve
from muster.daemon.gang.state import Sight
from muster.daemon.loop.dependents import ENDS, gone
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.foretold import foretold
from muster.daemon.loop.loop import Daemon
from muster.daemon.loop.stops import preempted, stopped, stopped_all
from muster.daemon.notify.subscription import refuse_bad_url
from muster.daemon.service.audit import audited
from muster.daemon.service.container_reach import container_problem
from muster.daemon.service.event_text import change_of
from muster.daemon.service.file_reach import reach_caveats, reach_problem
from muster.daemon.service.forecast import Question, forecast, waiting_for
from muster.daemon.service.foretelling import played
from muster.daemon.service.job_lists import active_first, cursor_after, newest_first
from muster.daemon.service.job_names import digest_of, number_in, refuse_numeric
from muster.daemon.service.packs import PackShelf
from muster.daemon.service.parents import ParentFound, numbered, pinned, while_live, with_parents
from muster.daemon.service.plan_record import plan_record
from muster.daemon.service.program_record import program_record
from muster.daemon.service.protocol import (
    ME,
    Caller,
    ConflictError,
    ForbiddenError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
)
from muster.daemon.service.queue import Queue, renewed
from muster.daemon.service.records import task_records
from muster.daemon.service.resume import FolderOf, resume_place
from muster.daemon.service.submission_keys import SubmissionKeys
from muster.daemon.service.submissions import submitted_job
from muster.daemon.service.user_limits import FORECASTS, refuse_oversized
from muster.daemon.service.visit_service import VisitService
from muster.ending import parse_ending
from muster.executors.accounts import TOGETHER, Submitters
from muster.files.job.job_request import request_of
from muster.files.source.quantity import MAX_PRIORITY
from muster.model.event import (
    EndingChanged,
    JobHeld,
    JobReleased,
    Reprioritised,
    Reshaped,
    Submitted,
)
from muster.model.job import Job, Role, RoleSpec
from muster.model.sweep import HELD
from muster.model.task import LogPiece, RequeueAsked
from muster.model.view import JobState, Phase
from muster.policy.registry import POLICIES
from muster.store.batch import SubmissionKey
from muster.store.job_filter import JobFilter
from muster.wire.records import (
    LIVE,
    OVER,
    ChangeRecord,
    Forecast,
    JobDetail,
    JobPage,
    JobRecord,
    PackRecord,
)

ENDED = tuple(fact.__name__ for fact in ENDS)
"""Kinds of changes after which nothing more happens to a job."""
ADMITTED = 1_000
"""Shapes of requests whose admission is cached: most submissions repeat one."""
PAGE = 500
"""Changes read at once."""
UNENFORCED = "not enforced"
"""In the caveat about limits of memory and cores."""
MOST = 100_000
"""Jobs that one request stops."""
HISTORY = 100
"""Changes in a job's detail."""


class JobService(VisitService):
    """Answers requests as the protocol says; every change is posted to the daemon as facts."""

    def __init__(
        self,
        daemon: Daemon,
        cluster_name: str,
        folder_of: FolderOf,
        submitters: Submitters = TOGETHER,
        caveats: tuple[str, ...] = (),
        packs: PackShelf | None = None,
    ) -> None:
        """`packs`: those that jobs ship; None: none can."""
        super().__init__(daemon, cluster_name, submitters, caveats)
        self._packs = packs
        self._folder_of = folder_of
        self._number = daemon.store.highest()
        self._keys = SubmissionKeys(partial(self._read, daemon.store.key))
        self._queue = Queue()
        self._forecasters = ThreadPoolExecutor(FORECASTS, "muster-forecast")
        """Their own: in the threads that read the store, forecasts would hold up every list."""

    # --- jobs ---

    @audited("submit")
    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        (record,) = await self._submitted_once(caller, (job,), key)
        return record

    @audited("submit")
    async def submit_all(
        self, caller: Caller, jobs: Sequence[Job], key: str | None = None
    ) -> list[JobRecord]:
        return await self._submitted_once(caller, jobs, key)

    async def _submitted_once(
        self, caller: Caller, jobs: Sequence[Job], key: str | None
    ) -> list[JobRecord]:
        """Submit jobs together, unless that was done before with the same key."""
        for user in dict.fromkeys(job.user for job in jobs):
            problem = self._submitters.problem(user, caller.user)
            if problem:
                raise RefusedError(problem)
        given = SubmissionKey(caller.user, key, 0, digest_of(*jobs)) if key else None

        async def known(first: int) -> list[JobRecord]:
            # The numbers of one submission follow each other.
            return [await self._record(number, caller) for number in range(first, first + len(jobs))]

        return await self._keys.once(given, partial(self._take_in, caller, jobs), known)

    async def pack(self, caller: Caller, digest: str) -> PackRecord:
        return await self._read(self._shelf().record, caller.user, digest)

    async def put_pack(
        self, caller: Caller, digest: str, offset: int, data: bytes, last: bool
    ) -> PackRecord:
        shelf, needed = self._shelf(), self._shipped()
        return await self._read(shelf.put, caller.user, digest, offset, data, last, needed)

    def _shelf(self) -> PackShelf:
        if self._packs is None:
            raise RefusedError("ship: this daemon keeps no packs")
        return self._packs

    def _shipped(self) -> frozenset[str]:
        """Packs that live jobs and members of sweeps run in."""
        live = [state.job for state in self._daemon.view.jobs.values()]
        live += [each.sweep.template for each in self._daemon.state.sweeps.values()]
        return frozenset(job.program.ship for job in live) - {""}

    async def prune_packs(self, older_than: float) -> None:
        """Remove the packs that no live job needs and nobody has used since then."""
        if self._packs is not None:
            await self._read(self._packs.prune, self._shipped(), older_than)

    async def _take_in(
        self, caller: Caller, jobs: Sequence[Job], key: SubmissionKey | None
    ) -> list[JobRecord]:
        """Submit jobs, parents first: all or none."""
        self._refuse_trouble()
        for job in jobs:
            await self._refuse_unfit(caller, job)
        jobs = [await self._resolved(job) for job in jobs]
        for job in [each for each in jobs if each.program.ship]:
            await self._read(self._shelf().take, caller.user, job.user, job.program.ship)
        while True:
            ready = await with_parents(jobs, partial(self._parent, caller))
            try:
                return await self._enter(caller, ready, key)
            except ConflictError as error:
                if self._may_try_again(ready):
                    continue  # a parent has ended meanwhile
                names = ", ".join(repr(job.name) for job in self._in_use(ready))
                if not names:
                    raise error from None
                raise ConflictError(
                    f"a job named {names} of {ready[0].user} is still active; choose another name, "
                    "or stop it first"
                ) from None

    async def _refuse_unfit(self, caller: Caller, job: Job) -> None:
        """Refuse a job that its caller may not submit, or that could never run."""
        refuse_numeric(job.name)
        refuse_oversized(job)
        await self.check_pool(caller, job)
        if job.program.notify:
            refuse_bad_url(job.program.notify, admin=False)
        problem = self._problem(job) or self._out_of_reach(job)
        if problem:
            raise RefusedError(problem)

    def _may_try_again(self, jobs: Sequence[Job]) -> bool:
        """Whether what one of these comes after has ended since it was found."""
        return bool(gone(self._daemon.state, pinned(jobs)))

    async def _parent(self, caller: Caller, which: str) -> ParentFound:
        """Find what a submission comes after."""
        job = await self._record(which, caller)
        return ParentFound(job.number, job.name, job.status if job.status in OVER else "")

    def _in_use(self, jobs: Sequence[Job]) -> list[Job]:
        return [job for job in jobs if job.full_name in self._daemon.view.names]

    async def _enter(
        self, caller: Caller, jobs: Sequence[Job], key: SubmissionKey | None
    ) -> list[JobRecord]:
        # No await up to the entry: two submissions never get the same number, nor one place.
        new = numbered(jobs, self._number + 1)
        entered: list[Job] = []
        try:
            for job in new:
                if not caller.admin:
                    self._limiter.refuse_submission(job, self.now())
                self._limiter.enter(job)
                entered.append(job)
            self._number += len(new)
            entry = Entry([Submitted(job, self.now()) for job in new])
            entry.current = while_live(jobs, entry.facts)
            entry.key = replace(key, number=new[0].number) if key else None
            await self._put(entry)
        except BaseException:
            for job in entered:
                self._limiter.leave(job.number)
            raise
        for _ in new:
            self._daemon.metrics.submitted()
        return [await self._record(job.number) for job in new]

    async def _resolved(self, job: Job) -> Job:
        """Replace the job that it resumes from by the place of that job's checkpoints."""
        if not job.program.resume_from:
            return job
        place = await self._read(resume_place, job, self._store, self._folder_of)
        return replace(job, program=replace(job.program, resume_from=place))

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

    def _out_of_reach(self, job: Job) -> str:
        """Why its tasks would not see the same files; empty if they do."""
        cluster = self._daemon.view.cluster
        return container_problem(job, cluster) or reach_problem(job, cluster, self._daemon.blind())

    @audited("forecast", refusals_only=True)
    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        refuse_numeric(job.name)
        refuse_oversized(job)
        await self.check_pool(caller, job)
        problem = self._problem(job) or self._out_of_reach(job)
        if problem:
            return Forecast(False, "", problem, None, None, "", problem)
        await self._resolved(job)
        (job,) = await with_parents((job,), partial(self._parent, caller))
        with self._limiter.forecasting(caller.user):
            return replace(await self._forecast(job), caveats=self._caveats_of(job))

    async def _forecast(self, job: Job) -> Forecast:
        daemon, now = self._daemon, self._daemon.clock.now()
        awaited = [each for each in job.after if not each.met]
        job = replace(job, name=f"{job.name or 'job'} (a forecast)", number=self._number + 1, after=())
        view = evolve(daemon.view, [Submitted(job, now)])
        known = daemon.beliefs.outlooks(view, now)
        question = Question(replace(view, outlooks=known), job.number, now)
        policy = POLICIES[daemon.state.policy]
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._forecasters, forecast, policy, question)
        if self.foresight is not None and not awaited:
            found = await played(self.foresight, found, job, known.get(job.number))
        barred = daemon.accounts.budgets.barred(view, now).get(job.number)
        if barred:
            found = replace(
                found, starts_now=False, placement="", reason=barred, start=None, finish=None
            )
        return waiting_for(found, awaited) if awaited else found

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        limit = max(1, min(query.limit, 1_000))
        find = active_first if query.active_first else newest_first
        wanted = self._filter(caller, query)
        found, counts = await self._read(
            find, self._store, wanted, query.statuses, query.cursor, limit + 1
        )
        page = tuple(self._fresh(record) for record in found[:limit])
        more = len(found) > limit
        return JobPage(page, cursor_after(found[limit - 1], query) if more else None, counts)

    def _filter(self, caller: Caller, query: JobQuery) -> JobFilter:
        user = caller.user if query.user == ME else query.user
        shown = self._visible(caller)
        return JobFilter(user, query.pool, query.name, shown, query.labels, query.since, query.until)

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
        place = self._queue.place(record.number, daemon.view, daemon.order, self.now())
        forecast = daemon.summaries[record.number].forecast
        changes: dict[str, Any] = {} if forecast is None else {**foretold(forecast)}
        if place is not None:
            changes["position"] = place
        return renewed(record, changes) if changes else record

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

    @audited("stop")
    async def stop(self, caller: Caller, which: str, force: bool = False) -> JobRecord:
        record = await self._record(which, caller)
        number = record.number
        state, summary = self._daemon.view.jobs.get(number), self._daemon.summaries.get(number)
        if state is None or summary is None or record.status in OVER:
            return record
        if summary.stopping and not force:
            return record
        await self._put_current(lambda state: stopped(state, number, force, self.now()))
        return await self._record(number, caller)

    @audited("stop all")
    async def stop_all(self, caller: Caller, query: JobQuery, force: bool = False) -> list[JobRecord]:
        live = tuple(status for status in LIVE if not query.statuses or status in query.statuses)
        wanted = self._filter(caller, query)
        found = await self._read(lambda: self._store.filtered(wanted, statuses=live, limit=MOST))
        numbers = [record.number for record in found if record.status != "stopping" or force]
        now = self.now()
        if numbers:
            by = caller.user
            await self._put_current(lambda state: stopped_all(state, numbers, force, now, by))
        return [await self._record(record.number, caller) for record in found]

    @audited("hold")
    async def hold(self, caller: Caller, which: str) -> JobRecord:
        state = await self._live(caller, which)
        if not state.held_by:
            held = JobHeld(state.number, caller.user, self.now())
            await self._put_current(lambda now: [held, *preempted(now, held)])
        return await self._record(state.number, caller)

    @audited("release")
    async def release(self, caller: Caller, which: str) -> JobRecord:
        state = await self._live(caller, which)
        if state.held_by == HELD:
            raise ConflictError(
                f"job {state.number} ({state.job.name}) is paused by its sweep, which releases it if "
                "it gets among the best of its rung"
            )
        if state.held_by:
            now = self._daemon.clock.now()
            await self._put(Entry([JobReleased(state.number, caller.user, now)]))
        return await self._record(state.number, caller)

    @audited("requeue")
    async def requeue(self, caller: Caller, which: str) -> JobRecord:
        state = await self._live(caller, which)
        if state.phase is Phase.WAITING:
            raise ConflictError(f"job {state.number} ({state.job.name}) is in the queue already")
        asked = RequeueAsked(state.number, caller.user, self.now())
        await self._put_current(lambda now: [asked, *preempted(now, asked)])
        return await self._record(state.number, caller)

    @audited("priority")
    async def set_priority(self, caller: Caller, which: str, priority: int) -> JobRecord:
        state = await self._live(caller, which)
        if abs(priority) > MAX_PRIORITY:
            raise RefusedError(f"priority must be from -{MAX_PRIORITY} to {MAX_PRIORITY}")
        self.check_priority(caller, state.job, priority)
        now = self._daemon.clock.now()
        await self._put(Entry([Reprioritised(state.number, priority, caller.user, now)]))
        return await self._record(state.number, caller)

    @audited("until")
    async def set_until(self, caller: Caller, which: str, until: str) -> JobRecord:
        state = await self._live(caller, which)
        try:
            text = str(parse_ending(until)) if until else ""
        except ValueError as problem:
            raise RefusedError(f"until: {problem}") from None
        self._check_until(state, text)
        changed = EndingChanged(state.number, text, caller.user, self._daemon.clock.now())
        await self._put_current(lambda now: [changed] if state.number in now.view.jobs else [])
        # Its own record says so once its tasks do.
        return replace(await self._record(state.number, caller), until=text)

    def _check_until(self, state: JobState, until: str) -> None:
        """Refuse an ending that a running job could not follow."""
        named = f"job {state.number} ({state.job.name})"
        gang = self._daemon.state.gangs.get(state.number)
        if state.phase is Phase.RUNNING and not (gang and gang.live):
            raise ConflictError(f"{named} reports no loss; trainings of Muster's runtime do")
        ending = self._daemon.beliefs.ending(state.number)
        if ending is None:
            return
        if ending.is_fixed:
            raise ConflictError(f"{named} trains asynchronously: what ends it is fixed while it runs")
        if ending.until and not until and not ending.most:
            raise ConflictError(
                f"{named} has no epochs or steps to end by; give another ending, or stop it"
            )

    async def _live(self, caller: Caller, which: str) -> JobState:
        """Return a job that the caller may change and that is not over or being stopped."""
        record = await self._record(which, caller)
        state = self._daemon.view.jobs.get(record.number)
        if state is None or record.status in OVER:
            raise ConflictError(f"job {record.number} ({record.name}) is over: {record.status}")
        if record.status == "stopping":
            raise ConflictError(f"job {record.number} ({record.name}) is being stopped")
        return state

    @audited("resize")
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
        return await self._changes(caller, after, number, limit)

    async def _changes(
        self, caller: Caller, after: int | None, number: int | None, limit: int = PAGE
    ) -> list[ChangeRecord]:
        visible = self._visible(caller) if number is None else None
        entries = await self._read(self._store.changes, after, number, limit, visible)
        return [change_of(entry) for entry in entries]

    async def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[ChangeRecord]:
        # By number from here on: the name may be given to another job.
        number = (await self._record(which, caller)).number if which is not None else None
        at, over = after, False
        while True:
            # Checked before the changes are read, so that they include the end.
            over = over or (number is not None and (await self._record(number, caller)).status in OVER)
            seen = self._daemon.seq
            found = await self._changes(caller, at, number)
            for change in found:
                at = change.seq
                # The store may know of the end before the daemon has adopted it.
                over = over or (number is not None and change.kind in ENDED)
                yield change
            if found:
                continue
            if over:
                return
            # All up to here was looked at, whoever's it was.
            at = seen if at is None else max(at, seen)
            await self._daemon.grown(at)

    # --- which job, and whose ---

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

    async def _numbered(self, number: int) -> JobRecord | None:
        if number in self._daemon.view.jobs and number in self._daemon.summaries:
            return self._placed(self._daemon.record(number))
        return await self._read(self._store.job, number)

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
