"""Requests about sweeps. A member is a job: everything else about it is asked as about any job."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from muster.core.sweeps.sweep_state import SweepState
from muster.daemon.loop.entry import Entry
from muster.daemon.loop.state import State
from muster.daemon.loop.stops import stopped
from muster.daemon.service.foresight_service import ForesightService
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.job_names import number_in, refuse_numeric, sweep_digest
from muster.daemon.service.protocol import Caller, ConflictError, NotFoundError, RefusedError
from muster.daemon.service.reading.job_lists import sweep_cursor
from muster.daemon.service.reading.submissions import submitted_sweep
from muster.daemon.service.submitting.parents import ParentFound, while_live, with_parents
from muster.daemon.service.submitting.resume import has_checkpoints
from muster.daemon.story.story_service import StoryService
from muster.daemon.sweeps.records import ended_as, member_records, sweep_record
from muster.daemon.sweeps.steps import doings
from muster.model.job import Job, Program
from muster.model.sweep import (
    MemberSubmitted,
    Sweep,
    SweepResized,
    SweepStopped,
    SweepSubmitted,
    member_job,
)
from muster.model.task import Fact
from muster.store.batch import SubmissionKey
from muster.store.job_filter import JobFilter
from muster.wire.api.records import OVER, JobRecord
from muster.wire.api.sweep_records import MemberRecord, SweepDetail, SweepRecord

CONTINUED = 50
"""Jobs of members' names that are looked at together, newest first."""
LONGEST_NAME = 63
"""Characters of a job's name, and so of a member's."""


class SweepService(ForesightService, StoryService):
    """Answers requests about sweeps as well."""

    @audited("sweep")
    async def submit_sweep(self, caller: Caller, sweep: Sweep, key: str | None = None) -> SweepRecord:
        problem = self._submitters.problem(sweep.user, caller.user)
        if problem:
            raise RefusedError(problem)
        return await self._keys.once(
            SubmissionKey(caller.user, key, 0, sweep_digest(sweep)) if key else None,
            partial(self._take_in_sweep, caller, sweep),
            partial(self._sweep_numbered, caller),
        )

    async def _take_in_sweep(
        self, caller: Caller, sweep: Sweep, key: SubmissionKey | None
    ) -> SweepRecord:
        self._refuse_trouble()
        first = member_job(sweep, 0)
        await self._refuse_unfit(caller, first)
        refuse_numeric(sweep.name)
        template = await self._resolved(sweep.template)
        if template.program.ship:
            await self._read(self._shelf().take, caller.user, sweep.user, template.program.ship)
        while True:
            (ready,) = await with_parents((template,), partial(self._parent, caller))
            try:
                return await self._enter_sweep(caller, replace(sweep, template=ready), key)
            except ConflictError:
                if not self._may_try_again((ready,)):
                    raise

    async def _enter_sweep(
        self, caller: Caller, sweep: Sweep, key: SubmissionKey | None
    ) -> SweepRecord:
        # No await up to the entry: no two submissions get the same numbers.
        if not caller.admin:
            self._limiter.refuse_submission(member_job(sweep, 0), self.now())
        sweep = replace(sweep, number=self._number + 1)
        self._refuse_name(sweep)
        self._number += 1 + sweep.size
        facts: list[Fact] = [SweepSubmitted(sweep, self.now())]
        entry = Entry(facts, current=while_live((sweep.template,), facts, view_knows=False))
        entry.key = replace(key, number=sweep.number) if key else None
        await self._put(entry)
        return sweep_record(self._daemon.state.sweeps[sweep.number])

    async def _parent(self, caller: Caller, which: str) -> ParentFound:
        """Find the job or sweep that a submission comes after: of a name, the newer one."""
        try:
            job = await super()._parent(caller, which)
        except NotFoundError as error:
            job, missing = None, error
        try:
            found = await self._sweep_record(caller, which)
        except NotFoundError:
            if job is None:
                raise missing from None
            return job
        if job is not None and job.number > found.number:
            return job
        return ParentFound(found.number, found.name, ended_as(found), sweep=True)

    def _refuse_name(self, sweep: Sweep) -> None:
        longest = sweep.member_name(sweep.size - 1)
        if len(longest) > LONGEST_NAME:
            raise RefusedError(
                f"its last member would be called {longest!r}, which has more than {LONGEST_NAME} "
                "characters; choose a shorter name"
            )
        names = (each.sweep for each in self._daemon.state.sweeps.values())
        if any((each.user, each.name) == (sweep.user, sweep.name) for each in names):
            raise ConflictError(
                f"a sweep named {sweep.name!r} of {sweep.user} is still active; choose another name, "
                "or stop it first"
            )

    async def sweeps(
        self, caller: Caller, cursor: str | None = None, limit: int = 100
    ) -> list[SweepRecord]:
        found = await self._read(
            lambda: self._store.sweeps(
                users_or_pools=self._visible(caller), before=sweep_cursor(cursor), limit=limit
            )
        )
        return [self._as_it_is(record) for record in found]

    def _as_it_is(self, record: SweepRecord) -> SweepRecord:
        """A live sweep's record as it is now, not as last written."""
        daemon = self._daemon.state
        state = daemon.sweeps.get(record.number)
        return record if state is None else sweep_record(state, doings(daemon, state).values())

    async def sweep(self, caller: Caller, which: str) -> SweepDetail:
        record = await self._sweep_record(caller, which)
        sweep = await self._submitted_sweep(record.number)
        first, last = record.number + 1, record.number + record.members
        rows = await self._read(self._store.between, first, last)
        jobs = {row.number: self._fresh(row) for row in rows if row.sweep == record.number}
        if sweep is None:  # the journal no longer has it: what is left is in the list of jobs
            return SweepDetail(record, tuple(_left(row) for row in reversed(jobs.values())))
        return SweepDetail(record, member_records(sweep, jobs, await self._continuations(record)))

    async def _continuations(self, record: SweepRecord) -> dict[str, JobRecord]:
        """Return the jobs that have continued members, by name; of several the newest."""
        found: dict[str, JobRecord] = {}
        wanted = JobFilter(user=record.user, name=f"{record.name}.*")
        last, before = record.number + record.members, None
        while True:
            ask = partial(self._store.filtered, wanted, before=before, limit=CONTINUED)
            later = [row for row in await self._read(ask) if row.number > last]
            for row in later:
                if row.sweep == record.number:
                    found.setdefault(row.name, self._fresh(row))
            if len(later) < CONTINUED:  # what is older are the members themselves
                return found
            before = later[-1].number

    @audited("stop sweep")
    async def stop_sweep(self, caller: Caller, which: str, force: bool = False) -> SweepRecord:
        record = await self._sweep_record(caller, which)
        number, by, now = record.number, caller.user, self.now()

        def facts(state: State) -> list[Fact]:
            sweep = state.sweeps.get(number)
            if sweep is None:
                return []
            ends = [
                fact
                for place in doings(state, sweep)
                for fact in stopped(state, sweep.sweep.job_number(place), force, now)
            ]
            return ends if sweep.stopped else [SweepStopped(number, by, now), *ends]

        await self._put_current(facts)
        return await self._sweep_numbered(caller, number)

    @audited("resize sweep")
    async def resize_sweep(self, caller: Caller, which: str, at_most: int) -> SweepRecord:
        record = await self._sweep_record(caller, which)
        self._live_sweep(record)
        changed = SweepResized(record.number, at_most, caller.user, self.now())
        await self._put_current(lambda state: [changed] if record.number in state.sweeps else [])
        return await self._sweep_numbered(caller, record.number)

    @audited("continue sweep")
    async def continue_sweep(
        self, caller: Caller, which: str, members: Sequence[str], arguments: Sequence[str] = ()
    ) -> list[JobRecord]:
        record = await self._sweep_record(caller, which)
        sweep = await self._submitted_sweep(record.number)
        if sweep is None:
            raise ConflictError(f"the journal no longer has sweep {record.number} ({record.name})")
        again = [await self._continued(sweep, label, arguments) for label in members]
        return [await self.submit(caller, job) for job in again]

    async def _continued(self, sweep: Sweep, label: str, arguments: Sequence[str]) -> Job:
        """Return a job that goes on from a member's checkpoints, with further arguments."""
        place = sweep.position_of(label)
        if place is None:
            raise NotFoundError(
                f"sweep {sweep.number} ({sweep.name}) has no member {label!r}; "
                f"see: muster sweep show {sweep.number}"
            )
        job, number = member_job(sweep, place), sweep.job_number(place)
        known = await self._numbered(number)
        if known is None or known.status not in OVER:
            status = "to come" if known is None else known.status
            raise ConflictError(f"{job.name} is not over but {status}; wait for it, or stop it first")
        shell = job.program.shell and arguments
        words = (" ".join((*job.command, *arguments)),) if shell else (*job.command, *arguments)
        program = await self._read(self._going_on, job)
        return replace(job, number=0, command=words, program=program)

    def _going_on(self, job: Job) -> Program:
        """Return the program of a member that starts where the member has stopped."""
        own = job.program.checkpoint or str(self._folder_of(job) / "checkpoint")
        if "://" in own or has_checkpoints(Path(own)):
            return replace(job.program, resume_from=own, checkpoint="")
        if not any(Path(own).glob("*")):
            raise RefusedError(f"{job.name} has no checkpoints to go on from")
        return replace(job.program, checkpoint=own)

    # --- which sweep, and whose ---

    async def _record(self, which: str | int, caller: Caller | None = None) -> JobRecord:
        """Find a job as ever; of a sweep's name or number, say that a member must be named."""
        try:
            return await super()._record(which, caller)
        except NotFoundError:
            if caller is None:
                raise
            try:
                sweep = await self._sweep_record(caller, str(which))
            except NotFoundError:
                sweep = None
            if sweep is None:
                raise
            raise NotFoundError(
                f"{str(which)!r} is a sweep; name one of its members: muster sweep show {sweep.number}"
            ) from None

    async def _sweep_record(self, caller: Caller, which: str) -> SweepRecord:
        """Find a sweep by number, name or `user/name`, if the caller may see it."""
        number = number_in(which)
        if number is not None:
            found = await self._read(self._store.sweep, number)
        else:
            user, _, name = which.rpartition("/")
            found = await self._read(self._store.named_sweep, user or caller.user, name)
        mine = found is not None and (
            caller.admin or found.user == caller.user or found.pool in self._shared
        )
        if found is None or not mine:
            raise NotFoundError(f"you have no sweep {which!r}; see: muster sweep ls")
        return self._as_it_is(found)

    async def _sweep_numbered(self, caller: Caller, number: int) -> SweepRecord:
        return await self._sweep_record(caller, str(number))

    def _live_sweep(self, record: SweepRecord) -> SweepState:
        state = self._daemon.state.sweeps.get(record.number)
        if state is None:
            raise ConflictError(f"sweep {record.number} ({record.name}) is over: {record.status}")
        return state

    async def _submitted_sweep(self, number: int) -> Sweep | None:
        state = self._daemon.state.sweeps.get(number)
        if state is not None:
            return state.sweep
        return await self._read(submitted_sweep, self._store, number)

    def count_members(self, facts: Sequence[Fact]) -> None:
        """Count members that have entered the queue as their user's live jobs."""
        for fact in facts:
            if isinstance(fact, MemberSubmitted) and fact.job in self._daemon.view.jobs:
                self._limiter.enter(self._daemon.view.jobs[fact.job].job)
                self._daemon.metrics.submitted()


def _left(job: JobRecord) -> MemberRecord:
    """A member of a sweep that is known from its job alone."""
    metrics = {"loss": job.loss, **job.metrics} if job.loss is not None else dict(job.metrics)
    label = job.name.rpartition(".")[2]
    return MemberRecord(
        label, job.params, job.status, job.number, job.name, metrics, job.epoch, job.rung
    )
