"""The service of a daemon without a daemon, for tests of API, client and command line.

State is kept in dicts, and jobs start, print and end when a test says so. Methods of the protocol that
are not written here answer with an empty value of their type: a new one needs no change.
"""

import asyncio
import fnmatch
import inspect
import math
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, get_origin, get_type_hints

from muster.daemon.service.governing.pool_change import PoolRules
from muster.daemon.service.protocol import (
    ME,
    Caller,
    ConflictError,
    ForbiddenError,
    JobQuery,
    NotFoundError,
    RefusedError,
    Service,
    Shape,
)
from muster.model.job import Job
from muster.model.pool import Quota
from muster.model.task import LogPiece
from muster.wire.agents.token_proof import digest, proof
from muster.wire.api.records import (
    OVER,
    ChangeRecord,
    Forecast,
    IdentityRecord,
    InvitationRecord,
    JobDetail,
    JobPage,
    JobRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    QuotaRecord,
    RotationRecord,
    StatusRecord,
    TaskRecord,
    TokenRecord,
)
from muster.wire.api.sweep_records import SweepDetail, SweepRecord
from muster.wire.visits.frames import Frames
from muster.wire.visits.visits import OUTPUT, Visit

T = TypeVar("T")
POLICIES = ("fifo", "muster")
MOST_WORKERS = 64
FILES: dict[str, tuple[dict[str, Any], bytes]] = {
    "list": ({"what": "folder"}, b'{"entries": [{"name": "log", "kind": "file", "size": 5}]}'),
    "read": ({"what": "file", "size": 5}, b"hello"),
}
"""What visits for files hear."""


def answering(protocol: type) -> Callable[[type[T]], type[T]]:
    """Give a fake the methods of a protocol that it lacks; hold the others to its signatures."""

    def filled(fake: type[T]) -> type[T]:
        for name, method in vars(protocol).items():
            if name.startswith("_") or not callable(method):
                continue
            own = getattr(fake, name, None)
            if own is None:
                setattr(fake, name, _canned(method))
            else:
                assert inspect.signature(own) == inspect.signature(method), name
        return fake

    return filled


def _labelled(record: JobRecord, key: str, value: str | None) -> bool:
    return key in record.labels and value in (None, record.labels[key])


def _canned(method: Callable[..., Any]) -> Callable[..., Any]:
    kind = get_type_hints(method)["return"]

    async def answer(*_: object, **__: object) -> Any:
        return _empty(kind)

    return answer


def _empty(kind: Any) -> Any:
    """An empty value: of a record, one with empty fields."""
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        needed = [f for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING]
        return kind(**{each.name: _empty(hints[each.name]) for each in needed})
    if kind is bytes:
        return b"{}"
    made = get_origin(kind) or kind
    return made() if made in (list, tuple, dict, str, int, float, bool) else None


@dataclass(slots=True)
class Entry:
    """A job, its tasks and what they printed."""

    record: JobRecord
    job: Job
    """As submitted; of a record that a test has made, its name alone."""
    tasks: list[TaskRecord] = field(default_factory=list)
    logs: dict[str, bytearray] = field(default_factory=dict)


@answering(Service)
class FakeService:
    """Keeps what it is told. `endless` false: streams end with what there is."""

    def __init__(self, endless: bool = True) -> None:
        self.entries: dict[int, Entry] = {}
        self.keys: dict[tuple[str, str], int] = {}
        self.history: list[ChangeRecord] = []
        self.sweep_details: dict[str, SweepDetail] = {}
        """By name."""
        self.secrets = {"root": Caller("root", admin=True), "ada": Caller("ada"), "bob": Caller("bob")}
        self.invited: list[InvitationRecord] = []
        self.names = {"root": "root", "ada": "ada", "bob": "bob"}
        self.identified = 0
        self.fails: Exception | None = None
        self.foreseen: Forecast | None = None
        """The answer of every forecast."""
        self.plays: Callable[[int], None] | None = None
        """What a job does as soon as somebody follows it."""
        self.node_records = {"n1": NodeRecord("n1", "up", "cpu", 8, 8, 2.0, 1 << 30, bitmap="." * 8)}
        self.pool_records = {"default": PoolRecord("default", "cluster")}
        self.requests: dict[int, dict[str, Any]] = {}
        """What would submit each job again."""
        self.visits: list[tuple[Visit, socket.socket]] = []
        self._policy = "muster"
        self._endless = endless
        self._news = asyncio.Event()

    # What happens, when a test says so.

    def start(self, number: int, workers: int = 1) -> None:
        """Its tasks run."""
        entry = self.entries[number]
        generation = entry.record.generation + 1
        for index in range(workers):
            log = f"{generation}/worker-{index}"
            entry.tasks.append(
                TaskRecord(
                    f"worker-{index}", "worker", index, generation, 0, "n1", (index,), "running", log
                )
            )
            entry.logs[log] = bytearray()
        entry.record = replace(entry.record, status="running", workers=workers, generation=generation)
        self._tell("Started", entry)

    def print(self, number: int, log: str, data: bytes) -> None:
        """A task writes."""
        self.entries[number].logs[log] += data

    def end(self, number: int, status: str = "succeeded") -> None:
        """The job is over."""
        entry = self.entries[number]
        entry.tasks = [replace(task, status="ended", code=0) for task in entry.tasks]
        entry.record = replace(entry.record, status=status, workers=0)
        self._tell("Ended", entry)

    def put(self, *records: JobRecord) -> None:
        """There are these jobs, and no others."""
        self.entries = {each.number: Entry(each, Job(each.name)) for each in records}

    def _tell(self, kind: str, entry: Entry | None = None) -> None:
        name = entry.record.name if entry else None
        number = entry.record.number if entry else None
        told = ChangeRecord(len(self.history) + 1, 0.0, kind, name, kind.lower(), number)
        self.history.append(told)
        self._news.set()
        self._news = asyncio.Event()

    # The protocol.

    async def submit(self, caller: Caller, job: Job, key: str | None = None) -> JobRecord:
        self._refuse_if_broken()
        if key is not None and (caller.user, key) in self.keys:
            return self.entries[self.keys[caller.user, key]].record
        if job.workers.gang > MOST_WORKERS:
            raise RefusedError(f"{job.workers.gang} devices are not there; at most {MOST_WORKERS}")
        number = max(self.entries, default=0) + 1
        record = JobRecord(number, job.name, job.user, job.pool, "waiting", command=job.command)
        self.entries[number] = Entry(record, replace(job, number=number))
        if key is not None:
            self.keys[caller.user, key] = number
        self._tell("Submitted", self.entries[number])
        return record

    async def submit_all(
        self, caller: Caller, jobs: Sequence[Job], key: str | None = None
    ) -> list[JobRecord]:
        return [await self.submit(caller, job) for job in jobs]

    async def forecast(self, caller: Caller, job: Job) -> Forecast:
        self._refuse_if_broken()
        plan = f"{job.workers.most} workers"
        return self.foreseen or Forecast(True, "n1", "there is room", 0.0, job.duration, plan)

    async def jobs(self, caller: Caller, query: JobQuery) -> JobPage:
        seen = [entry.record for entry in self.entries.values() if self._may(caller, entry)]
        wanted = [
            record
            for record in sorted(seen, key=lambda record: -record.number)
            if (not query.statuses or record.status in query.statuses)
            and query.user in (None, record.user, {caller.user: ME}.get(record.user))
            and query.pool in (None, record.pool)
            and fnmatch.fnmatchcase(record.name, query.name or "*")
            and all(_labelled(record, key, value) for key, value in query.labels)
            and (query.since or 0.0) <= record.submitted < (query.until or math.inf)
        ]
        if query.active_first:
            wanted.sort(key=lambda record: 2 if record.status in OVER else record.status == "waiting")
            first = _number(query.cursor or "0")
            page, rest = wanted[first:][: query.limit], wanted[first:][query.limit :]
            counts = Counter(record.status for record in seen if query.user in (None, record.user))
            return JobPage(tuple(page), str(first + len(page)) if rest else None, dict(counts))
        wanted = [each for each in wanted if each.number < _number(query.cursor or str(1 << 62))]
        page = wanted[: query.limit]
        return JobPage(tuple(page), str(page[-1].number) if len(wanted) > len(page) else None)

    async def job(self, caller: Caller, which: str) -> JobDetail:
        entry = self._find(caller, which)
        changes = tuple(change for change in self.history if change.job == entry.record.name)
        return JobDetail(entry.record, tuple(entry.tasks), changes)

    async def sweep(self, caller: Caller, which: str) -> SweepDetail:
        for name, detail in self.sweep_details.items():
            if which in (name, str(detail.sweep.number)):
                return detail
        raise NotFoundError(f"you have no sweep {which!r}; see: muster sweep ls")

    async def stop_sweep(self, caller: Caller, which: str, force: bool = False) -> SweepRecord:
        detail = await self.sweep(caller, which)
        stopped = replace(detail.sweep, status="stopped", outcome="cancelled")
        self.sweep_details[stopped.name] = replace(detail, sweep=stopped)
        return stopped

    async def stop(self, caller: Caller, which: str, force: bool = False) -> JobRecord:
        entry = self._find(caller, which)
        if entry.record.status not in OVER:
            self.end(entry.record.number, "cancelled")
        return entry.record

    async def stop_all(self, caller: Caller, query: JobQuery, force: bool = False) -> list[JobRecord]:
        page = await self.jobs(caller, replace(query, limit=1_000))
        live = [job for job in page.jobs if job.status not in OVER]
        return [await self.stop(caller, str(job.number), force) for job in live]

    async def request(self, caller: Caller, which: str) -> dict[str, Any]:
        return self.requests.get(self._find(caller, which).record.number, {"command": "true"})

    async def hold(self, caller: Caller, which: str) -> JobRecord:
        entry = self._find(caller, which)
        held = f"held by {caller.user}"
        entry.record = replace(entry.record, code="waiting.held", reason=held)
        return entry.record

    async def release(self, caller: Caller, which: str) -> JobRecord:
        entry = self._find(caller, which)
        entry.record = replace(entry.record, code="", reason="")
        return entry.record

    async def requeue(self, caller: Caller, which: str) -> JobRecord:
        return self._find(caller, which).record

    async def set_priority(self, caller: Caller, which: str, priority: int) -> JobRecord:
        entry = self._find(caller, which)
        entry.record = replace(entry.record, priority=priority)
        return entry.record

    async def set_until(self, caller: Caller, which: str, until: str) -> JobRecord:
        entry = self._find(caller, which)
        entry.record = replace(entry.record, until=until)
        return entry.record

    async def resize(self, caller: Caller, which: str, shape: Shape) -> JobRecord:
        entry = self._find(caller, which)
        if entry.record.status in OVER:
            raise ConflictError(f"job {which} is over")
        entry.record = replace(entry.record, asked=f"{shape.least}..{shape.most}")
        self._tell("Reshaped", entry)
        return entry.record

    async def log(
        self, caller: Caller, which: str, log: str, offset: int = 0, size: int = 65536
    ) -> LogPiece:
        logs = self._find(caller, which).logs
        if log not in logs:
            raise NotFoundError(f"job {which} has no log {log}")
        begin = max(0, len(logs[log]) + offset) if offset < 0 else min(offset, len(logs[log]))
        data = bytes(logs[log][begin : begin + size])
        return LogPiece(data, begin, begin + len(data))

    async def visit(
        self,
        caller: Caller,
        which: str,
        visit: Visit,
        task: str | None = None,
        rank: int | None = None,
    ) -> socket.socket:
        """Its other end is the test's, unless it is about files: each is there, and small."""
        self._find(caller, which)
        ours, theirs = socket.socketpair()
        self.visits.append((visit, theirs))
        said = FILES.get(visit.kind)
        if said is not None:
            head, data = said
            frames = Frames()
            frames.note(**head)
            frames.send(OUTPUT, data)
            frames.note(what="exit", code=0)
            theirs.sendall(frames.outgoing)
        return ours

    async def changes(
        self, caller: Caller, after: int | None, which: str | None = None, limit: int = 500
    ) -> list[ChangeRecord]:
        seen = self._changes(caller, which)
        if after is None:
            return seen[-limit:]
        return [change for change in seen if change.seq > after][:limit]

    async def follow(
        self, caller: Caller, after: int | None, which: str | None = None
    ) -> AsyncIterator[Sequence[ChangeRecord]]:
        last = after or 0
        if which is not None and self.plays is not None:
            self.plays(self._find(caller, which).record.number)
        while True:
            news = self._news
            found = [change for change in self._changes(caller, which) if change.seq > last]
            if found:
                last = found[-1].seq
                yield found
            over = which is not None and self._find(caller, which).record.status in OVER
            if over or not self._endless:
                return
            await news.wait()

    async def nodes(self, caller: Caller) -> list[NodeRecord]:
        return list(self.node_records.values())

    async def node(self, caller: Caller, name: str) -> NodeRecord:
        if name not in self.node_records:
            raise NotFoundError(f"no node named {name!r}; see: muster node list")
        return self.node_records[name]

    async def drain(self, caller: Caller, node: str, within: float | None = None) -> NodeRecord:
        self._set_node(caller, node, "draining")
        until = None if within is None else time.time() + within
        self.node_records[node] = replace(self.node_records[node], until=until)
        return self.node_records[node]

    async def resume(self, caller: Caller, node: str) -> NodeRecord:
        return self._set_node(caller, node, "up")

    async def pools(self, caller: Caller) -> list[PoolRecord]:
        return list(self.pool_records.values())

    async def set_pool(
        self,
        caller: Caller,
        name: str,
        parent: str | None,
        quotas: Mapping[str, Quota],
        shared: bool | None = None,
        rules: PoolRules | None = None,
    ) -> PoolRecord:
        self._admin(caller)
        if name == "cluster" or (parent is not None and parent not in {"cluster", *self.pool_records}):
            raise RefusedError(f"no pool is called {parent!r}")
        old = self.pool_records.get(name, PoolRecord(name, parent or "cluster"))
        kept = {quota.device_type: quota for quota in old.quotas}
        for kind, quota in quotas.items():
            kept[kind] = QuotaRecord(kind, quota.reservation, quota.share, quota.limit)
        self.pool_records[name] = replace(
            old,
            parent=parent or old.parent,
            quotas=tuple(kept.values()),
            shared=old.shared if shared is None else shared,
        )
        if rules is not None and rules.allow is not None:
            self.pool_records[name] = replace(self.pool_records[name], allow=rules.allow)
        return self.pool_records[name]

    async def remove_pool(self, caller: Caller, name: str) -> None:
        self._admin(caller)
        if name not in self.pool_records:
            raise NotFoundError(f"no pool is called {name!r}")
        if any(entry.record.pool == name for entry in self.entries.values()):
            raise ConflictError(f"pool {name!r} has jobs")
        del self.pool_records[name]

    async def policy(self, caller: Caller) -> PolicyRecord:
        return PolicyRecord(self._policy, POLICIES, f"the policy {self._policy}")

    async def set_policy(self, caller: Caller, name: str) -> PolicyRecord:
        self._admin(caller)
        if name not in POLICIES:
            raise RefusedError(f"no policy named {name!r}; policies: {', '.join(POLICIES)}")
        self._policy = name
        return await self.policy(caller)

    async def tokens(self, caller: Caller) -> list[TokenRecord]:
        return [
            TokenRecord(name, who.user, "admin" if who.admin else "user", time.time() - 3600.0)
            for name, who in ((name, self.secrets[secret]) for name, secret in self.names.items())
            if caller.admin or who.user == caller.user
        ]

    async def create_token(self, caller: Caller, name: str, user: str, role: str) -> TokenRecord:
        self._admin(caller)
        if name in self.names:
            raise ConflictError(f"there is a token {name!r} already")
        secret = f"secret-of-{name}"
        self.secrets[secret] = Caller(user, admin=role == "admin")
        self.names[name] = secret
        return TokenRecord(name, user, role, 0.0, secret=secret)

    async def revoke_token(self, caller: Caller, name: str) -> None:
        secret = self.names.get(name)
        owner = self.secrets.get(secret or "")
        if secret is None or owner is None or not (caller.admin or owner.user == caller.user):
            raise NotFoundError(f"there is no token {name!r}")
        del self.names[name], self.secrets[secret]

    async def rotate_token(self, caller: Caller, name: str) -> TokenRecord:
        if name not in self.names:
            raise NotFoundError(f"there is no token {name!r}")
        who = self.secrets.pop(self.names[name])
        self.names[name] = f"new-secret-of-{name}"
        self.secrets[self.names[name]] = who
        return TokenRecord(name, who.user, "user", 0.0, secret=self.names[name])

    async def invitations(self, caller: Caller) -> list[InvitationRecord]:
        return list(self.invited) if caller.admin else []

    async def invite(
        self, caller: Caller, node: str, uses: int = 1, seconds: float = 3600.0
    ) -> InvitationRecord:
        self._admin(caller)
        now = time.time()
        self.invited.append(InvitationRecord("0badcafe", now, now + seconds, node, uses))
        return replace(self.invited[-1], token="mja1.abc", command="muster agent --join mja1.abc")

    async def remove_node(self, caller: Caller, node: str) -> None:
        self._admin(caller)
        if self.node_records.pop(node, None) is None:
            raise NotFoundError(f"no node named {node!r}; see: muster node list")

    async def revoke_node(self, caller: Caller, node: str) -> IdentityRecord:
        self._admin(caller)
        if node not in self.node_records:
            raise NotFoundError(f"no agent has joined as {node!r}; see: muster node list")
        return IdentityRecord(node, "1", "", 0.0, 0.0, 0.0, revoked=1.0)

    async def rotate(self, caller: Caller, what: str, at_once: bool = False) -> RotationRecord:
        self._admin(caller)
        return RotationRecord(what, () if at_once else ("gpu1",))

    async def identify(self, secret: str) -> Caller | None:
        self.identified += 1
        return self.secrets.get(secret)

    async def prove(self, prefix: str, nonce: str, port: int) -> str:
        known = [found for secret in self.secrets if (found := digest(secret)).startswith(prefix)]
        return proof(known[0] if known else "00" * 32, nonce, port)

    async def status(self) -> StatusRecord:
        waiting = sum(entry.record.status == "waiting" for entry in self.entries.values())
        running = sum(entry.record.status == "running" for entry in self.entries.values())
        nodes = self.node_records.values()
        devices, free = sum(node.devices for node in nodes), sum(node.free for node in nodes)
        return StatusRecord(
            "0", "lab", "active", 0.0, self._policy, devices, free, waiting, running, 0, 0.0
        )

    async def metrics(self) -> bytes:
        return b"muster_pending_jobs 0\n"

    # The rest.

    def _refuse_if_broken(self) -> None:
        if self.fails is not None:
            raise self.fails

    def _admin(self, caller: Caller) -> None:
        if not caller.admin:
            raise ForbiddenError("only an administrator may do that")

    def _may(self, caller: Caller, entry: Entry) -> bool:
        shared = entry.record.pool in self.pool_records and self.pool_records[entry.record.pool].shared
        return caller.admin or entry.record.user == caller.user or shared

    def _find(self, caller: Caller, which: str) -> Entry:
        for number in sorted(self.entries, reverse=True):
            entry = self.entries[number]
            names = (str(number), entry.record.name, f"{entry.record.user}/{entry.record.name}")
            if which in names and self._may(caller, entry):
                return entry
        raise NotFoundError(f"you have no job {which!r}")

    def _changes(self, caller: Caller, which: str | None) -> list[ChangeRecord]:
        if which is not None:
            name = self._find(caller, which).record.name
            return [change for change in self.history if change.job == name]
        mine = {entry.record.name for entry in self.entries.values() if self._may(caller, entry)}
        return [change for change in self.history if change.job is None or change.job in mine]

    def _set_node(self, caller: Caller, node: str, state: str) -> NodeRecord:
        self._admin(caller)
        if node not in self.node_records:
            raise NotFoundError(f"no node is called {node!r}")
        self.node_records[node] = replace(self.node_records[node], state=state)
        return self.node_records[node]


def _number(cursor: str) -> int:
    if not cursor.isdigit():
        raise RefusedError(f"{cursor!r} is not a cursor; give back the `next` of a page")
    return int(cursor)
