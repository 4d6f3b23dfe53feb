"""A whole daemon on a store of its own and a machine that is not there, for tests."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from muster.daemon.assembly import RunningDaemon, Site, open_daemon
from muster.daemon.loop.loop import Pace
from muster.daemon.service.protocol import Caller
from muster.executors.accounts import TOGETHER, Submitters
from muster.executors.discover import Grid, virtual_cluster
from muster.executors.discover import Machine as Computer
from muster.model.job import Job
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.view import JobState
from muster.ports import Executor
from muster.store.store import Store, open_store
from tests.builders import job
from tests.contract.fake_executor import FakeExecutor, Machine

ADMIN = Caller("root", admin=True)
ANN, BOB = Caller("ann"), Caller("bob")
LONG = 20.0
"""Seconds after which a test gives up."""


def site(folder: Path, devices: int = 4) -> Site:
    """Two pools on one node of virtual devices."""
    cluster = virtual_cluster(Grid(1, 1, devices), Computer(8_000, 16 * 10**9))
    half = {"cpu": Quota(reservation=devices // 2)}
    pools = PoolTree({"default": Pool("default", quotas=half), "other": Pool("other", quotas=half)})
    return Site(cluster, pools, "fifo", folder / "jobs")


@asynccontextmanager
async def running_daemon(
    folder: Path,
    machine: Machine | None = None,
    *,
    executor: Executor | None = None,
    store: Store | None = None,
    begin: bool = True,
    devices: int = 4,
    submitters: Submitters = TOGETHER,
    caveats: tuple[str, ...] = (),
    listen: str = "",
) -> AsyncIterator[RunningDaemon]:
    """A daemon in this folder; the machine outlives it."""
    kept = store or open_store(str(folder / "muster.db"))
    assert kept.claim()
    runs = executor or FakeExecutor(machine or Machine())
    there = replace(site(folder, devices), submitters=submitters, caveats=caveats, listen=listen)
    made = await open_daemon(there, kept, runs, Pace(interval=0.2, refresh=0.1, retry=0.05))
    if begin:
        made.begin()
    try:
        yield made
    finally:
        await made.close()
        kept.close()


def program(name: str = "", *argv: str, workers: int = 1, user: str = "ann", **fields: object) -> Job:
    """A job whose tasks do what the fake's first word says."""
    asked = job(name, workers, **fields)  # type: ignore[arg-type]
    roles = tuple(replace(spec, need=replace(spec.need, memory=0)) for spec in asked.roles)
    return replace(asked, command=argv or ("live",), user=user, roles=roles)


def state_of(made: RunningDaemon, name: str) -> JobState:
    """The state of a live job."""
    return next(each for each in made.daemon.view.jobs.values() if each.job.name == name)


async def until(made: RunningDaemon, reached: Callable[[], bool]) -> None:
    """Wait for something to come true: it is looked at whenever the journal grows."""
    async with asyncio.timeout(LONG):
        while not reached():
            await asyncio.sleep(0.005)
