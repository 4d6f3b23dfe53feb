"""The service of a daemon: who may ask what, and what is answered."""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from muster import __version__
from muster.core.admit import refuse
from muster.core.evolve import EventError, NameTakenError, evolve
from muster.core.lifecycle import LifecycleError
from muster.daemon.entry import Entry
from muster.daemon.forecast import Question, forecast
from muster.daemon.hands import Fact
from muster.daemon.loop import Daemon
from muster.daemon.service import (
    Caller,
    ConflictError,
    ForbiddenError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Shape,
    UnavailableError,
)
from muster.daemon.standing import node_record, pool_records, task_records
from muster.daemon.tell import change_of
from muster.model.event import (
    Cancelled,
    NodeDraining,
    NodeReturned,
    PoolsSet,
    PreemptBegun,
    Reshaped,
    Submitted,
)
from muster.model.job import Job, Role, RoleSpec
from muster.model.pool import ROOT, Pool, PoolError, PoolTree, Quota
from muster.model.task import LogPiece, PolicySet, StopAsked
from muster.model.view import JobState, Phase
from muster.policy.registry import POLICIES
from muster.store.errors import StoreError
from muster.wire.records import (
    OVER,
    ChangeRecord,
    Forecast,
    JobDetail,
    JobPage,
    JobRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    StatusRecord,
    TokenRecord,
)

T = TypeVar("T")
ROLES = ("admin", "user")
SHARED = "shared pools"
"""The setting that holds the names of pools whose users see and stop each other's jobs."""
ADMITTED = 1_000
"""Shapes of requests whose admission is remembered: most submissions are like one before."""
USED = 60.0
"""Seconds within which a token's use is not noted again."""
PAGE = 500
"""Changes that are read at once."""
HISTORY = 100
"""Changes that a job's detail shows."""


class Front:
    """Answers requests; what changes anything goes through the daemon's one door."""

    def __init__(self, daemon: Daemon, cluster_name: str) -> None:
        self._daemon, self._store, self._cluster = daemon, daemon.store, cluster_name
        self._number = daemon.store.highest()
        self._began = daemon.clock.now()
        self._admitted: dict[tuple[object, ...], str] = {}
        self._keys: dict[tuple[str, str], asyncio.Lock] = {}
        """Of submissions under way."""
        shared = daemon.store.setting(SHARED)
        self._shared = set(shared.split("\n")) if shared else set()

    # --- jobs ---

    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        """Take a job in; with a key that this user gave before, the job of then."""
        if key is None:
            return await self._take_in(job, None)
        # Of two requests with one key at one time the second waits to see what became of the first.
        async with self._keys.setdefault((job.user, key), asyncio.Lock()):
            try:
                known = await self._read(self._store.key, job.user, key)
                if known is not None:
                    return await self._record(str(known))
                return await self._take_in(job, key)
            finally:
                self._keys.pop((job.user, key), None)

    async def _take_in(self, job: Job, key: str | None) -> JobRecord:
        self._refuse_trouble()
        problem = self._problem(job)
        if problem:
            raise RefusedError(problem)
        # Numbers are given without a wait in between: two submissions never get the same.
        self._number += 1
        job = replace(job, number=self._number, name=job.name or f"job-{self._number}")
        entry = Entry([Submitted(job, self._daemon.clock.now())])
        entry.key = (job.user, key, job.number) if key is not None else None
        try:
            await self._put(entry)
        except ConflictError:
            raise ConflictError(
                f"a job called {job.name!r} is not over yet; give another name, or stop that one"
            ) from None
        self._daemon.metrics.submitted()
        if job.name not in self._daemon.cards.of:
            return await self._record(str(job.number))
        return self._daemon.record(job.name)

    def _problem(self, job: Job) -> str:
        """Why the job could never run here; empty if it could."""
        view = self._daemon.view
        shape = (
            job.pool,
            job.roles,
            job.device_types,
            job.locality,
            job.preemptible,
            job.same_generation,
        )
        key = (id(view.pools), *shape, job.model, job.batch)
        if key not in self._admitted:
            if len(self._admitted) >= ADMITTED:
                self._admitted.clear()
            found = refuse(job, view.cluster, view.pools)
            near = found.nearest if found else None
            hint = f" (nearest that could: {near.field}: {near.value})" if near else ""
            self._admitted[key] = f"can never run on this cluster: {found.why}{hint}" if found else ""
        return self._admitted[key]

    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        """What would become of the job if it were submitted now."""
        problem = self._problem(job)
        if problem:
            return Forecast(False, "", problem, None, None, "", problem)
        daemon, now = self._daemon, self._daemon.clock.now()
        job = replace(job, name=f"{job.name or 'job'} (a forecast)")
        view = evolve(daemon.view, [Submitted(job, now)])
        known = daemon.beliefs.outlooks(view, now)
        ends = {name: daemon.beliefs.finish(name, daemon.view, now) for name in daemon.view.jobs}
        finishes = {name: end for name, end in ends.items() if end is not None}
        question = Question(replace(view, outlooks=known), job.name, finishes, now)
        return await self._read(forecast, POLICIES[daemon.state.policy], question)

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        """The jobs that the caller may see."""
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
        """A live job's record as it is this moment, not as it was last written."""
        card = self._daemon.cards.of.get(record.name)
        if card is None or card.job.number != record.number:
            return record
        state = self._daemon.view.jobs.get(record.name)
        if record.status == Phase.WAITING and state is not None and state.phase is Phase.WAITING:
            return record  # without tasks nothing changes but by facts, which are written with it
        return self._daemon.record(record.name)

    async def job(self, caller: Caller, which: str) -> JobDetail:
        """All about one job."""
        record = await self._record(which, caller)
        gang = self._daemon.gangs.get(record.name)
        if gang is not None and gang.job.number != record.number:
            gang = None
        entries = await self._read(
            lambda: self._store.changes(None, number=record.number, limit=HISTORY)
        )
        return JobDetail(
            record,
            task_records(gang, entries),
            tuple(change_of(entry) for entry in entries),
            tuple(await self._read(self._store.predictions, record.number)),
            tuple(self._daemon.beliefs.losses(record.name)) if gang is not None else (),
        )

    async def stop(self, caller: Caller, which: str) -> JobRecord:
        """End a job: it is `stopping` until its tasks are gone. Twice is once."""
        record = await self._record(which, caller)
        state, card = self._daemon.view.jobs.get(record.name), self._daemon.cards.of.get(record.name)
        if state is None or card is None or record.status in OVER or card.stopping:
            return record
        now = self._daemon.clock.now()
        gang = self._daemon.gangs.get(record.name)
        facts: list[Fact] = [StopAsked(record.name, now), *_preempt(state, now)]
        if state.phase is Phase.WAITING and not (gang and gang.tasks):
            await self._put(Entry([*facts, Cancelled(record.name, now)]))
        else:
            await self._put(Entry(facts, [lambda: self._cancel(record.name)]))
        return await self._record(str(record.number), caller)

    def _cancel(self, name: str) -> None:
        if name in self._daemon.view.jobs:
            self._daemon.gang(name).cancel()

    async def resize(self, caller: Caller, which: str, shape: Shape) -> JobRecord:
        """Ask for other numbers of workers."""
        record = await self._record(which, caller)
        state = self._daemon.view.jobs.get(record.name)
        if state is None or record.status in OVER:
            raise ConflictError(f"{record.name} is over: it is {record.status}")
        if not 1 <= shape.least <= shape.most:
            raise RefusedError(
                f"{shape.least}..{shape.most} is no range of workers; write for example 2..4"
            )
        wanted = tuple(_reshaped(spec, shape) for spec in state.job.roles)
        problem = self._problem(replace(state.job, roles=wanted))
        if problem:
            raise RefusedError(problem)
        free = sum(node.free.bit_count() for node in self._daemon.view.cluster.nodes)
        roles = tuple(_from_what_it_has(spec, state, free) for spec in wanted)
        await self._put(Entry([Reshaped(record.name, roles, self._daemon.clock.now())]))
        return await self._record(str(record.number), caller)

    async def log(
        self, caller: Caller, which: str, log: str, offset: int = 0, size: int = 65536
    ) -> LogPiece:
        """A part of a log, by its name in `TaskRecord.log`."""
        record = await self._record(which, caller)
        name = f"{record.number}-{record.name}/{log}.log"
        try:
            return await self._read(self._daemon.executor.read_log, name, offset, size)
        except LookupError:
            raise NotFoundError(
                f"{record.name} has no log {log!r}; see: muster show {record.number}"
            ) from None

    async def changes(
        self, caller: Caller, after: int | None, which: str | None = None, limit: int = PAGE
    ) -> list[ChangeRecord]:
        """What happened after a number in the journal, oldest first; None: the latest."""
        number = (await self._record(which, caller)).number if which is not None else None
        entries = await self._read(lambda: self._store.changes(after, number=number, limit=limit))
        found = [change_of(entry) for entry in entries]
        if caller.admin or which is not None:
            return found
        return [change for change in found if await self._may_see(caller, change.job)]

    async def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[ChangeRecord]:
        """The same, and then whatever happens; of one job: to its end."""
        at = after
        while True:
            # Asked before the changes are read: what led to the end is then among them.
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

    # --- nodes, pools, policy ---

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        """All nodes."""
        view = self._daemon.view
        return [node_record(view, node) for node in view.cluster.nodes]

    async def drain(self, caller: Caller, node: str) -> NodeRecord:
        """Give a node no new tasks."""
        return await self._turn_node(caller, node, NodeDraining)

    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        """Use a drained node again."""
        return await self._turn_node(caller, node, NodeReturned)

    async def _turn_node(
        self, caller: Caller, node: str, fact: type[NodeDraining | NodeReturned]
    ) -> NodeRecord:
        _admins_only(caller)
        if node not in self._daemon.view.cluster.index:
            raise NotFoundError(f"no node is called {node!r}; see: muster node list")
        await self._put(Entry([fact(node, self._daemon.clock.now())]))
        view = self._daemon.view
        return node_record(view, view.cluster.node(node))

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        """All pools."""
        return pool_records(self._daemon.view, self._daemon.entitlements, self._shared)

    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
    ) -> PoolRecord:
        """Make a pool, or change it: what is not named stays."""
        _admins_only(caller)
        tree = self._daemon.view.pools
        known = tree.pools.get(name)
        types = self._daemon.view.cluster.device_types()
        for device_type in quotas:
            if device_type not in types:
                raise RefusedError(
                    f"no device is of type {device_type!r}; there are: {', '.join(types)}"
                )
        above = parent or (known.parent if known else ROOT)
        pool = Pool(name, above, {**(known.quotas if known else {}), **quotas})
        await self._set_pools({**tree.pools, name: pool})
        if shared is not None:
            self._shared = self._shared | {name} if shared else self._shared - {name}
            await self._read(self._store.set_setting, SHARED, "\n".join(sorted(self._shared)))
        return next(each for each in await self.pools(caller) if each.name == name)

    async def remove_pool(self, caller: Caller, name: str) -> None:
        """Remove a pool without jobs."""
        _admins_only(caller)
        pools = dict(self._daemon.view.pools.pools)
        if pools.pop(name, None) is None:
            raise NotFoundError(f"no pool is called {name!r}; see: muster pool list")
        await self._set_pools(pools)

    async def _set_pools(self, pools: Mapping[str, Pool]) -> None:
        try:
            tree = PoolTree(dict(pools))
        except PoolError as error:
            raise RefusedError(str(error)) from None
        if not tree.leaves():
            raise RefusedError("without pools there would be nowhere to submit to")
        self._refuse_overbooked(tree)
        self._admitted.clear()
        await self._put(Entry([PoolsSet(tree, self._daemon.clock.now())]))
        self._admitted.clear()

    def _refuse_overbooked(self, tree: PoolTree) -> None:
        """What pools reserve must be there."""
        cluster = self._daemon.view.cluster
        for device_type in cluster.device_types():
            top = (tree.pools[name].quota(device_type) for name in tree.below[ROOT])
            promised, there = sum(q.reservation for q in top), cluster.count_devices(device_type)
            if promised > there:
                raise RefusedError(
                    f"pools would reserve {promised} {device_type} together, there are {there}"
                )

    async def policy(self, caller: Caller) -> PolicyRecord:
        """The policy in force."""
        name = self._daemon.state.policy
        text = (type(POLICIES[name]).__doc__ or "").strip().partition("\n")[0]
        return PolicyRecord(name, tuple(sorted(POLICIES)), text)

    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        """Choose a policy, from the next cycle on."""
        _admins_only(caller)
        if name not in POLICIES:
            raise RefusedError(
                f"no policy is called {name!r}; there are: {', '.join(sorted(POLICIES))}"
            )
        entry = Entry([PolicySet(name, self._daemon.clock.now())])
        entry.then.append(lambda: self._daemon.set_policy(name))
        await self._put(entry)
        return await self.policy(caller)

    # --- tokens and the daemon itself ---

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        """All tokens, without their secrets; a user's own."""
        found = await self._read(self._store.tokens)
        return [each for each in found if caller.admin or each.user == caller.user]

    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        """Make a token; this answer alone has its secret."""
        _admins_only(caller)
        if role not in ROLES:
            raise RefusedError(f"no role is called {role!r}; there are: {', '.join(ROLES)}")
        if any(each.name == name for each in await self._read(self._store.tokens)):
            raise ConflictError(
                f"a token is called {name!r} already; revoke it first, or take another name"
            )
        secret, created = secrets.token_urlsafe(32), self._daemon.clock.now()
        await self._read(self._store.add_token, name, user, role, digest(secret), created)
        return TokenRecord(name, user, role, created, secret=secret)

    async def revoke_token(self, caller: Caller, name: str) -> None:
        """Make a token invalid at once."""
        if name not in [each.name for each in await self.tokens(caller)]:
            raise NotFoundError(f"no token of yours is called {name!r}; see: muster token list")
        await self._read(self._store.revoke_token, name)

    async def identify(self, secret: str) -> Caller | None:
        """Whose token it is; None: nobody's."""
        known = digest(secret)
        found = await self._read(self._store.token, known)
        if found is None:
            return None
        now = self._daemon.clock.now()
        if found.used is None or now > found.used + USED:
            with contextlib.suppress(UnavailableError):  # a full disk keeps nobody out
                await self._read(self._store.touch_token, known, now)
        return Caller(found.user, found.role == "admin")

    async def status(self) -> StatusRecord:
        """How the daemon is."""
        daemon, view = self._daemon, self._daemon.view
        free = sum(node.free.bit_count() for node in view.cluster.nodes)
        every = sum(view.cluster.count_devices(each) for each in view.cluster.device_types())
        waiting = sum(state.phase is Phase.WAITING for state in view.jobs.values())
        return StatusRecord(
            version=__version__,
            cluster=self._cluster,
            role="active",
            since=self._began,
            policy=daemon.state.policy,
            devices=every,
            free=free,
            pending=waiting,
            running=len(view.jobs) - waiting,
            cycles=daemon.cycles,
            last_cycle=daemon.last_cycle,
            trouble=daemon.trouble,
            counts=await self._read(self._store.counts),
        )

    def metrics(self) -> bytes:
        """Prometheus' text form."""
        return self._daemon.metrics.text()

    # --- common ---

    async def _put(self, entry: Entry) -> None:
        """Through the door; what is in the way is told as a caller can understand it."""
        self._refuse_trouble()
        try:
            await self._daemon.put(entry)
        except NameTakenError as error:
            raise ConflictError(str(error)) from None
        except (EventError, LifecycleError) as error:
            raise ConflictError(str(error)) from None
        except StoreError as error:
            raise UnavailableError(
                f"nothing was done: the journal cannot be written ({error})"
            ) from None

    def _refuse_trouble(self) -> None:
        if self._daemon.trouble:
            raise UnavailableError(f"the journal cannot be written: {self._daemon.trouble}")

    async def _record(self, which: str, caller: Caller | None = None) -> JobRecord:
        """A job by number or name, if the caller may see it; newest first."""
        card = self._daemon.cards.of.get(which)
        if card is not None:
            found: JobRecord | None = self._daemon.record(which)
        elif which.isascii() and which.isdigit() and len(which) < 19:
            found = await self._read(self._store.job, int(which))
        else:
            found = await self._read(self._store.named, which)
        if found is None or (caller is not None and not self._may(caller, found)):
            raise NotFoundError(f"no job of yours is called {which!r}; see: muster ps -a")
        return self._fresh(found)

    def _may(self, caller: Caller, record: JobRecord) -> bool:
        return caller.admin or record.user == caller.user or record.pool in self._shared

    async def _may_see(self, caller: Caller, job: str | None) -> bool:
        if job is None:
            return False
        try:
            await self._record(job, caller)
        except NotFoundError:
            return False
        return True

    async def _read(self, ask: Callable[..., T], *arguments: object) -> T:
        """Ask the store off the event loop."""
        try:
            return await asyncio.to_thread(ask, *arguments)
        except StoreError as error:
            raise UnavailableError(str(error)) from None


def digest(secret: str) -> str:
    """What is stored of a secret: with 256 random bits no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def _admins_only(caller: Caller) -> None:
    if not caller.admin:
        raise ForbiddenError("only an administrator may do that; ask for a token with the role admin")


def _cursor(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise RefusedError("the cursor is not one: pass the `next` of the page before")
    return int(text)


def _preempt(state: JobState, now: float) -> list[PreemptBegun]:
    """A job with tasks is told to stop; one that waits, or stops already, needs no telling."""
    if state.phase in (Phase.WAITING, Phase.PREEMPTING):
        return []
    return [PreemptBegun(state.name, state.generation, now)]


def _reshaped(spec: RoleSpec, shape: Shape) -> RoleSpec:
    if spec.role is Role.WORKER:
        return replace(spec, gang=shape.least, least=shape.least, most=shape.most)
    if shape.servers is None:
        return spec
    return replace(spec, gang=shape.servers, least=shape.servers, most=shape.servers)


def _from_what_it_has(spec: RoleSpec, state: JobState, free: int) -> RoleSpec:
    """Where there is no room for a larger gang, a running job would have to stop for it: it rather goes
    on with the tasks it has, and grows when there is."""
    has = state.placement.count(spec.role) if state.placement else 0
    if not has or (spec.gang - has) * spec.need.devices <= free:
        return spec
    return replace(spec, gang=min(spec.gang, has))
