"""A cluster with a few jobs, behind the real client and API, for tests of the command line."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

from muster.client import Client
from muster.client.connecting.in_process import InProcess
from muster.wire.api.records import (
    ChangeRecord,
    Forecast,
    JobRecord,
    NodeRecord,
    PoolRecord,
    QuotaRecord,
    TaskRecord,
)
from tests.fake_service import FakeService
from tests.unit.api.harness import Api, running_api

HOUR = 3600.0
PRINTED = (
    "2/worker-0 | step 1",
    "2/worker-1 | step 1",
    "2/worker-0 | step 2",
    "2/worker-0 | step 3",
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


@dataclass
class Lab(httpx.BaseTransport):
    """The daemon that commands talk to; what they send is in `requests`."""

    api: Api
    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path and body."""
    refusal: tuple[int, str] | None = None
    """Status and detail of the answer to every request; status 0: no daemon."""

    @property
    def service(self) -> FakeService:
        """What is there; tests change it while no request is under way."""
        return self.api.service

    def client(self) -> Client:
        """An administrator's client."""
        return Client(token="root", transport=self, patience=0.0)

    def put(self, *records: JobRecord) -> None:
        """There are these jobs, and no others."""
        self.service.put(*records)

    def paths(self, method: str) -> list[str]:
        """The paths that requests of this method went to."""
        return [path for verb, path, _ in self.requests if verb == method]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.read() or b"null")
        self.requests.append((request.method, request.url.path, body))
        if self.refusal is None:
            return InProcess(self.api.app, self.api.loop).handle_request(request)
        status, detail = self.refusal
        if not status:
            raise httpx.ConnectError(detail)
        told = {"status": status, "title": "", "detail": detail, "hint": "of HTTP"}
        return httpx.Response(status, json=told)


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


@contextmanager
def a_lab() -> Iterator[Lab]:
    """Eight devices, a job that runs on three, one that waits, two that are over, two pools."""
    with running_api() as api:
        service = api.service
        service.put(
            a_waiting_job(),
            a_job(),
            an_ended_job(
                11, "vgg16", "failed", error="worker-0 ended with code 3\nlast line", exit_code=3
            ),
            an_ended_job(10, "cnn", "succeeded", user="bob", pool="default"),
        )
        running = service.entries[12]
        running.tasks = [a_task(i, i) for i in range(3)]
        running.logs = {log: bytearray() for log in ("2/worker-0", "2/worker-1")}
        for line in PRINTED:
            log, _, text = line.partition(" | ")
            service.print(12, log, f"{text}\n".encode())
        now = time.time()
        service.history = [
            ChangeRecord(7, now - 60, "Resized", "resnet50", "runs with 3 workers"),
            ChangeRecord(8, now - 30, "Submitted", "bert", "ada submitted it"),
        ]
        service.node_records = {"n0": a_node()}
        service.pool_records = {
            "research": PoolRecord("research", "cluster", (QuotaRecord("cpu", 4, 2.0, 6, 5, 3),), 1, 1),
            "default": PoolRecord("default", "cluster"),
        }
        yield Lab(api)
