"""A daemon's client for tests of the command line: honest answers out of a few records."""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from muster.client import ClientError
from muster.wire.records import (
    OVER,
    ChangeRecord,
    Forecast,
    JobDetail,
    JobRecord,
    NodeRecord,
    PolicyRecord,
    PoolRecord,
    QuotaRecord,
    StatusRecord,
    TaskRecord,
    TokenRecord,
)

HOUR = 3600.0
PRINTED = (
    "1/worker-0 | step 1",
    "1/worker-1 | step 1",
    "1/worker-0 | step 2",
    "1/worker-0 | step 3",
)
STARTS_NOW = Forecast(
    starts_now=True,
    placement="n0[0-3]",
    reason="the gang fits inside its pool's entitlement",
    start=None,
    finish=None,
    plan="4 workers, ring",
)


def a_job(number: int = 12, name: str = "resnet50", **fields: Any) -> JobRecord:
    """A job that runs: submitted an hour ago, an hour to go."""
    now = time.time()
    about: dict[str, Any] = {
        "user": "ada",
        "pool": "research",
        "status": "running",
        "command": ("python", "train.py", "--lr", "0.1"),
        "asked": "1..8",
        "workers": 3,
        "devices": 3,
        "nodes": ("n0",),
        "generation": 2,
        "submitted": now - HOUR,
        "started": now - HOUR + 5,
        "step": 1240,
        "steps": 5000,
        "epoch": 3,
        "loss": 0.04213,
        "rate": 3319.0,
        "code": "running.at_most",
        "reason": "it has all it asked for",
        "predicted_finish": now + HOUR + 0.5,
        "resizes": 1,
        "pause": 0.25,
        "live": True,
    }
    return JobRecord(number, name, **{**about, **fields})


def a_waiting_job(number: int = 13, name: str = "bert", **fields: Any) -> JobRecord:
    """A job that has never had a device."""
    about: dict[str, Any] = {
        "status": "waiting",
        "workers": 0,
        "devices": 0,
        "nodes": (),
        "generation": 0,
        "started": None,
        "step": None,
        "steps": None,
        "epoch": None,
        "loss": None,
        "rate": None,
        "code": "waiting.devices",
        "reason": "not enough devices are free; asks 8, 2 free",
        "predicted_finish": None,
        "resizes": 0,
        "pause": 0.0,
    }
    return a_job(number, name, **{**about, **fields})


def an_ended_job(number: int, name: str, status: str, **fields: Any) -> JobRecord:
    """A job that is over, since half an hour."""
    ended = time.time() - HOUR / 2
    about: dict[str, Any] = {"status": status, "workers": 0, "devices": 0, "nodes": (), "ended": ended}
    return a_job(number, name, **{**about, **fields})


@dataclass(frozen=True, slots=True)
class StubHandle:
    """A job that was submitted; one that is waited for ends as the client's `ends` says, or never."""

    client: "StubClient"
    number: int
    name: str

    def record(self) -> JobRecord:
        return self.client.job(str(self.number)).job

    def wait(self, timeout: float | None = None) -> JobRecord:
        job = self.record()
        if job.status in OVER:
            return job
        if self.client.ends is None:
            raise TimeoutError
        return self.client.put(an_ended_job(job.number, job.name, self.client.ends))


@dataclass
class StubClient:
    """What is asked is written down in `asked`; what is there can be changed at any time."""

    records: list[JobRecord] = field(default_factory=list)
    tasks: dict[int, tuple[TaskRecord, ...]] = field(default_factory=dict)
    printed: list[str] = field(default_factory=lambda: list(PRINTED))
    changes: list[ChangeRecord] = field(default_factory=list)
    cluster: list[NodeRecord] = field(default_factory=list)
    tree: list[PoolRecord] = field(default_factory=list)
    secrets: list[TokenRecord] = field(default_factory=list)
    chosen: str = "muster"
    foreseen: Forecast = STARTS_NOW
    asked: list[tuple[str, Any]] = field(default_factory=list)
    ends: str | None = None
    refusal: BaseException | None = None
    """Raised by whatever is asked next."""

    def __enter__(self) -> "StubClient":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def _ask(self, what: str, about: Any = None) -> None:
        self.asked.append((what, about))
        if self.refusal is not None:
            raise self.refusal

    def _find(self, which: str) -> JobRecord:
        for job in self.records:
            if which in (str(job.number), job.name):
                return job
        raise ClientError(404, "Not Found", f"there is no job {which!r}")

    def put(self, job: JobRecord) -> JobRecord:
        self.records = [job if job.number == each.number else each for each in self.records]
        return job

    def forecast(self, job: Mapping[str, Any]) -> Forecast:
        self._ask("forecast", job)
        return self.foreseen

    def submit(self, job: Mapping[str, Any]) -> StubHandle:
        self._ask("submit", job)
        number = 1 + max((each.number for each in self.records), default=0)
        self.records.insert(0, a_job(number, job["name"]))
        return StubHandle(self, number, job["name"])

    def jobs(
        self,
        *,
        statuses: Sequence[str] = (),
        user: str | None = None,
        pool: str | None = None,
        page: int = 100,
    ) -> Iterator[JobRecord]:
        self._ask("jobs", (tuple(statuses), user, pool))
        for job in self.records:
            if (
                (not statuses or job.status in statuses)
                and user in (None, job.user)
                and pool in (None, job.pool)
            ):
                yield job

    def job(self, which: str) -> JobDetail:
        self._ask("job", which)
        job = self._find(which)
        return JobDetail(job, self.tasks.get(job.number, ()), tuple(self.changes))

    def stop(self, which: str) -> JobRecord:
        self._ask("stop", which)
        job = self._find(which)
        return job if job.status in OVER else self.put(replace(job, status="stopping"))

    def resize(
        self, which: str, least: int, most: int | None = None, servers: int | None = None
    ) -> JobRecord:
        self._ask("resize", (which, least, most, servers))
        asked = str(least) if most in (None, least) else f"{least}..{most}"
        return self.put(replace(self._find(which), asked=asked))

    def logs(self, which: str, task: str | None = None, follow: bool = False) -> Iterator[str]:
        self._ask("logs", (which, task, follow))
        self._find(which)
        for line in self.printed:
            log, _, text = line.partition(" | ")
            if task is None:
                yield line
            elif log == task:
                yield text

    def handle(self, which: str) -> StubHandle:
        job = self._find(which)
        return StubHandle(self, job.number, job.name)

    def events(self, *, after: int | None = None) -> Iterator[ChangeRecord]:
        self._ask("events", after)
        yield from (change for change in self.changes if change.seq > (after or 0))

    def status(self) -> StatusRecord:
        self._ask("status")
        devices, free = (sum(n) for n in zip(*((n.devices, n.free) for n in self.cluster), strict=True))
        running = sum(job.status == "running" for job in self.records)
        waiting = sum(job.status == "waiting" for job in self.records)
        return StatusRecord(
            version="0.1.0",
            cluster="lab",
            role="active",
            since=time.time() - HOUR,
            policy=self.chosen,
            devices=devices,
            free=free,
            pending=waiting,
            running=running,
            cycles=1234,
            last_cycle=0.0042,
        )

    def nodes(self) -> list[NodeRecord]:
        self._ask("nodes")
        return self.cluster

    def drain(self, node: str) -> NodeRecord:
        return self._state(node, "draining")

    def resume(self, node: str) -> NodeRecord:
        return self._state(node, "up")

    def _state(self, name: str, state: str) -> NodeRecord:
        self._ask(state, name)
        for node in self.cluster:
            if node.name == name:
                return replace(node, state=state)
        raise ClientError(404, "Not Found", f"there is no node {name!r}")

    def pools(self) -> list[PoolRecord]:
        self._ask("pools")
        return self.tree

    def set_pool(
        self,
        name: str,
        *,
        parent: str | None = None,
        quotas: Mapping[str, Mapping[str, Any]] | None = None,
        shared: bool | None = None,
    ) -> PoolRecord:
        self._ask("set_pool", (name, parent, quotas, shared))
        held = tuple(QuotaRecord(kind, **quota) for kind, quota in (quotas or {}).items())
        return PoolRecord(name, parent or "cluster", held, shared=bool(shared))

    def remove_pool(self, name: str) -> None:
        self._ask("remove_pool", name)

    def policy(self) -> PolicyRecord:
        self._ask("policy")
        return PolicyRecord(self.chosen, ("muster", "fifo"), "shares by marginal gain")

    def set_policy(self, name: str) -> PolicyRecord:
        self._ask("set_policy", name)
        if not re.fullmatch("muster|fifo", name):
            raise ClientError(422, "Unprocessable Content", f"{name!r} is not a policy")
        self.chosen = name
        return self.policy()

    def tokens(self) -> list[TokenRecord]:
        self._ask("tokens")
        return self.secrets

    def create_token(self, name: str, user: str, role: str) -> TokenRecord:
        self._ask("create_token", (name, user, role))
        return TokenRecord(name, user, role, time.time(), secret="a-secret")

    def revoke_token(self, name: str) -> None:
        self._ask("revoke_token", name)


def a_node(name: str = "n0", bitmap: str = "xxx.....", **fields: Any) -> NodeRecord:
    """A node of virtual devices."""
    about: dict[str, Any] = {
        "state": "up",
        "device_type": "cpu",
        "devices": len(bitmap),
        "free": bitmap.count("."),
        "cores": 2.0,
        "memory": 8_000_000_000,
        "jobs": ("resnet50",),
    }
    return NodeRecord(name, **{**about, **fields}, bitmap=bitmap)


def a_task(index: int, device: int, **fields: Any) -> TaskRecord:
    """A worker with one device of the first node."""
    about: dict[str, Any] = {
        "role": "worker",
        "index": index,
        "generation": 2,
        "attempt": 0,
        "node": "n0",
        "devices": (device,),
        "status": "running",
        "log": f"2/worker-{index}",
    }
    return TaskRecord(f"worker-{index}", **{**about, **fields})


def a_lab() -> StubClient:
    """Eight devices, a job that runs on three, one that waits, two that are over, two pools."""
    return StubClient(
        records=[
            a_waiting_job(),
            a_job(),
            an_ended_job(
                11, "vgg16", "failed", error="worker-0 ended with code 3\nlast line", exit_code=3
            ),
            an_ended_job(10, "cnn", "succeeded", user="bob", pool="default"),
        ],
        tasks={12: tuple(a_task(i, i) for i in range(3))},
        changes=[
            ChangeRecord(7, time.time() - 60, "Resized", "resnet50", "runs with 3 workers"),
            ChangeRecord(8, time.time() - 30, "Submitted", "bert", "ada submitted it"),
        ],
        cluster=[a_node()],
        tree=[
            PoolRecord("research", "cluster", (QuotaRecord("cpu", 4, 2.0, 6, 5, 3),), 1, 1),
            PoolRecord("default", "cluster"),
        ],
        secrets=[TokenRecord("laptop", "ada", "user", time.time() - HOUR)],
    )
