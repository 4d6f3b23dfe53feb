"""A daemon inside this process: no server, no port, no token; it ends with the block."""

import asyncio
import contextlib
import getpass
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from muster.api.app import create_app
from muster.client.client import Client
from muster.client.in_process import InProcess
from muster.daemon.assembly import House, Site, open_house
from muster.daemon.service.protocol import Caller
from muster.executors.discover import discover
from muster.executors.local.executor import LocalExecutor
from muster.model.pool import single_pool
from muster.store.store import open_store
from muster.wire.records import LIVE

OPENS = 60.0
"""Seconds for the daemon to begin or to end: a second where nobody else computes."""


@contextlib.contextmanager
def local(
    devices: int | None = None, *, policy: str = "muster", data: str | Path | None = None
) -> Iterator[Client]:
    """A client of a daemon that lives as long as the block, with so many virtual devices.

    `data`: its folder, which a later one goes on with; without one nothing is kept, and jobs that are
    not over when the block ends are stopped.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(data) if data else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        keeper = _Keeper(folder, devices, policy)
        stack.callback(keeper.close)
        keeper.open()
        app = create_app(keeper.house.front, auth=False, anonymous=Caller(getpass.getuser(), True))
        client = stack.enter_context(Client(transport=InProcess(app, keeper.loop)))
        if data is None:
            stack.callback(_stop_all, client)
        yield client


def _stop_all(client: Client) -> None:
    """What nobody could take up again must not live on."""
    left = list(client.jobs(statuses=LIVE))
    for job in left:
        client.stop(str(job.number))
    for job in left:
        client.handle(str(job.number)).wait()


class _Keeper:
    """The thread and the event loop in which the daemon lives."""

    def __init__(self, folder: Path, devices: int | None, policy: str) -> None:
        self._folder, self._devices, self._policy = folder, devices, policy
        self.loop = asyncio.new_event_loop()
        self.house: House
        self._thread = threading.Thread(target=self.loop.run_forever, name="muster", daemon=True)

    def open(self) -> None:
        """Begin, and return when it answers."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result(OPENS)

    async def _open(self) -> None:
        cluster = discover(self._devices)
        site = Site(
            cluster, single_pool(cluster.devices_by_type()), self._policy, self._folder / "jobs"
        )
        self._store = open_store(str(self._folder / "muster.db"))
        if not self._store.claim():
            self._store.close()
            raise RuntimeError(f"another daemon works with {self._folder}")
        executor = LocalExecutor(self._folder, time.time)
        self.house = await open_house(site, self._store, executor)
        self.house.begin()

    def close(self) -> None:
        """End the daemon and its thread."""
        if hasattr(self, "house"):
            asyncio.run_coroutine_threadsafe(self.house.close(), self.loop).result(OPENS)
            self._store.close()
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(OPENS)
        self.loop.close()
