"""The door before the daemon stands: health and status are answered, everything else waits for it."""

import asyncio
import json
from types import SimpleNamespace

import httpx
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from muster.api.door.hosts import Hosts
from muster.api.door.limits import Limits
from muster.api.door.peer import PEER, Peer
from muster.api.door.reception import Reception
from muster.store.errors import StoreError
from muster.wire.api.daemon_records import StatusRecord

STARTING = StatusRecord(
    version="1",
    cluster="",
    role="starting",
    since=1.0,
    policy="",
    devices=0,
    free=0,
    pending=3,
    running=1,
    cycles=0,
    last_cycle=0.0,
    counts={"waiting": 3, "running": 1},
)


class Api:
    """The API of a daemon that stands."""

    state = SimpleNamespace(streams=None)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await PlainTextResponse(f"daemon: {scope['path']}")(scope, receive, send)


def reception(*, broken: bool = False) -> Reception:
    async def status() -> StatusRecord:
        if broken:
            raise StoreError("the disk is gone")
        return STARTING

    return Reception(status, Limits(), Hosts(), lambda: 0.0)


def client(found: Reception, host: str = "localhost") -> httpx.AsyncClient:
    async def from_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await found({**scope, PEER: Peer("127.0.0.1", "127.0.0.1")}, receive, send)

    return httpx.AsyncClient(transport=httpx.ASGITransport(app=from_peer), base_url=f"http://{host}")


def test_health_and_jobs_are_told_before_the_daemon_stands() -> None:
    async def run() -> None:
        async with client(reception()) as http:
            assert (await http.get("/healthz")).text == "ok\n"
            told = json.loads((await http.get("/v1/status")).content)
        assert told["role"] == "starting"
        assert told["counts"] == {"waiting": 3, "running": 1}

    asyncio.run(run())


def test_other_requests_wait_for_the_daemon_and_are_answered_by_it() -> None:
    async def run() -> None:
        found = reception()
        async with client(found) as http:
            asked = asyncio.create_task(http.get("/v1/jobs"))
            assert (await http.get("/healthz")).status_code == 200  # the other one is on its way by now
            assert not asked.done()
            found.open(Api())
            assert (await asked).text == "daemon: /v1/jobs"
            assert (await http.get("/v1/status")).text == "daemon: /v1/status"

    asyncio.run(run())


def test_a_store_that_cannot_be_read_is_left_to_the_daemon() -> None:
    async def run() -> None:
        found = reception(broken=True)
        async with client(found) as http:
            asked = asyncio.create_task(http.get("/v1/status"))
            await http.get("/healthz")
            found.open(Api())
            assert (await asked).text == "daemon: /v1/status"

    asyncio.run(run())


def test_pages_of_other_sites_are_refused_at_once() -> None:
    async def run() -> None:
        async with client(reception(), host="evil.example") as http:
            assert (await http.get("/v1/status")).status_code == 403

    asyncio.run(run())
