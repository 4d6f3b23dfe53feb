"""The service of a daemon: requests that change jobs, and who may make them."""

from dataclasses import replace

from muster.daemon.loop.entry import Entry
from muster.daemon.loop.stops import preempted, stopped, stopped_all
from muster.daemon.service.governing.audit import audited
from muster.daemon.service.protocol import (
    Caller,
    ConflictError,
    JobQuery,
    RefusedError,
    Shape,
)
from muster.daemon.service.submitting.submit_service import SubmitService
from muster.ending import parse_ending
from muster.files.source.quantity import MAX_PRIORITY
from muster.model.event import (
    EndingChanged,
    JobHeld,
    JobReleased,
    Reprioritised,
    Reshaped,
)
from muster.model.job import Role, RoleSpec
from muster.model.sweep import HELD
from muster.model.task import RequeueAsked
from muster.model.view import JobState, Phase
from muster.wire.api.records import (
    LIVE,
    OVER,
    JobRecord,
)

MOST = 100_000
"""Jobs that one request stops."""


class JobService(SubmitService):
    """Answers requests as the protocol says; every change is posted to the daemon as facts."""

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
