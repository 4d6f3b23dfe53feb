"""The client in an event loop: the same methods, to be awaited."""

import asyncio
import inspect

import pytest

import muster
from muster.client import Client, ClientError
from muster.client.async_client import AsyncClient
from muster.client.connecting.in_process import InProcess
from muster.client.handles import job_watcher
from muster.daemon.loop import dependents
from tests.unit.api.harness import Api

JOB = {"name": "resnet50", "command": "python train.py"}


def of(api: Api) -> AsyncClient:
    """A client of its own, which the end of the block closes."""
    return AsyncClient(token="ada", transport=InProcess(api.app, api.loop))


def test_it_has_every_method_of_the_client() -> None:
    found = [name for name, _ in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"]
    client = AsyncClient("http://127.0.0.1:1")
    assert set(found) <= set(dir(client))
    assert all(callable(getattr(client, name)) for name in found)
    with pytest.raises(AttributeError, match="no attribute 'jbos'"):
        _ = client.jbos


def test_it_submits_lists_and_waits(api: Api) -> None:
    async def story() -> list[str]:
        async with of(api) as client:
            job = await client.submit(JOB)
            waits = asyncio.ensure_future(job.wait(30))
            listed = [each.name async for each in client.jobs()]
            assert (await client.record(job.number)).status == "waiting"
            api.do(lambda: api.service.start(1))
            api.do(lambda: api.service.end(1))
            return [*listed, (await waits).status, (await job).status]

    assert asyncio.run(story()) == ["resnet50", "succeeded", "succeeded"]


def test_a_watcher_knows_every_event_that_ends_a_job() -> None:
    assert {fact.__name__ for fact in dependents.ENDS} == job_watcher.ENDS


def test_a_wait_that_takes_too_long_leaves_the_job(api: Api) -> None:
    async def story() -> str:
        async with of(api) as client:
            job = await client.submit(JOB)
            with pytest.raises(TimeoutError):
                await job.wait(0.01)
            return (await job.record()).status

    assert asyncio.run(story()) == "waiting"


def test_errors_are_the_clients(api: Api) -> None:
    async def story() -> None:
        async with of(api) as client:
            with pytest.raises(ClientError) as raised:
                await client.job(99)
            assert raised.value.status == 404

    asyncio.run(story())


def test_dir_lists_what_there_is_before_it_is_loaded() -> None:
    assert {"Client", "AsyncClient", "Executor", "submit", "local", "progress"} <= set(dir(muster))
    assert "TYPE_CHECKING" not in dir(muster), "only what users want"
    assert all(hasattr(muster, name) for name in ("Client", "Executor", "submit", "result", "progress"))
