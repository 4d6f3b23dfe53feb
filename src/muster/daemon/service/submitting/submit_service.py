"""Requests that submit jobs, or ask what would become of one."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from muster.core.cycle.options import admission_key
from muster.core.state.admit import refuse
from muster.core.state.evolve import evolve
from muster.daemon.loop.dependents import gone
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.loop import Daemon
from muster.daemon.notify.subscription import refuse_bad_job_url
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.job_names import digest_of, refuse_numeric
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    RefusedError,
)
from muster.daemon.service.submitting.container_reach import container_problem
from muster.daemon.service.submitting.file_reach import reach_problem
from muster.daemon.service.submitting.forecast import Question, forecast, waiting_for
from muster.daemon.service.submitting.foretelling import played
from muster.daemon.service.submitting.packs import PackShelf
from muster.daemon.service.submitting.parents import (
    ParentFound,
    numbered,
    pinned,
    while_live,
    with_parents,
)
from muster.daemon.service.submitting.resume import FolderOf, resume_place
from muster.daemon.service.submitting.submission_keys import SubmissionKeys
from muster.daemon.service.submitting.user_limits import FORECASTS, refuse_oversized
from muster.daemon.service.visit_service import VisitService
from muster.executors.accounts import TOGETHER, Submitters
from muster.model.event import (
    Submitted,
)
from muster.model.job import Job
from muster.policy.registry import POLICIES
from muster.store.batch import SubmissionKey
from muster.wire.api.records import (
    OVER,
    Forecast,
    JobRecord,
    PackRecord,
)

ADMITTED = 1_000
"""Shapes of requests whose admission is cached: most submissions repeat one."""


class SubmitService(VisitService):
    """Accepts jobs that can run here; every one is posted to the daemon as a fact."""

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
        self._forecasters = ThreadPoolExecutor(FORECASTS, "muster-forecast")
        """Their own: in the threads that read the store, forecasts would hold up every list."""

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
        _refuse_webhook(caller, job)
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
        _refuse_webhook(caller, job)
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
        barred = daemon.accounts.budgets.barred(view, now).get(job.number)
        if self.foresight is not None and not awaited and not barred:
            found = await played(self.foresight, found, job, known.get(job.number))
        if barred:
            found = replace(
                found, starts_now=False, placement="", reason=barred, start=None, finish=None, basis=""
            )
        return waiting_for(found, awaited) if awaited else found


def _refuse_webhook(caller: Caller, job: Job) -> None:
    if job.program.notify:
        refuse_bad_job_url(job.program.notify, caller.admin)
