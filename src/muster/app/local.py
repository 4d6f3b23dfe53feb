"""A daemon inside this process: no server, no port, no token; it ends with the block."""

import asyncio
import contextlib
import logging
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import structlog

from muster.api.app import create_app
from muster.app.up import executor_for
from muster.client.client import Client
from muster.client.in_process import InProcess
from muster.daemon.assembly import RunningDaemon, Site, open_daemon
from muster.daemon.service.protocol import Caller
from muster.executors.accounts import own_user
from muster.executors.discover import discover
from muster.executors.private_folder import make_private
from muster.model.pool import single_pool
from muster.store.store import open_store
from muster.wire.records import LIVE

START_LIMIT = 60.0
"""s for the daemon to start or stop: it takes one on an idle machine."""


@contextlib.contextmanager
def local(
    devices: int | None = None, *, policy: str = "muster", data: str | Path | None = None
) -> Iterator[Client]:
    """Run a daemon with this many virtual devices for the length of the block; yields its client.

    `data`: its folder, which a later daemon can reuse. Without one nothing is kept, and jobs that are
    still live when the block ends are stopped.
    """
    if not structlog.is_configured():
        # The log is the daemon's; a script that uses one by the way prints what it likes itself.
        quiet = structlog.make_filtering_bound_logger(logging.WARNING)
        structlog.configure(wrapper_class=quiet)
    with contextlib.ExitStack() as stack:
        folder = Path(data) if data else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_private(folder)
        thread = _DaemonThread(folder, devices, policy)
        stack.callback(thread.close)
        thread.open()
        app = create_app(thread.running.service, auth=False, owner=Caller(own_user(), True))
        client = stack.enter_context(Client(transport=InProcess(app, thread.loop)))
        if data is None:
            stack.callback(_stop_all, client)
        yield client


def _stop_all(client: Client) -> None:
    """Stop what no later daemon could reattach to."""
    left = list(client.jobs(statuses=LIVE))
    for job in left:
        client.stop(str(job.number))
    for job in left:
        client.handle(str(job.number)).wait()


class _DaemonThread:
    """The thread and the event loop in which the daemon lives."""

    def __init__(self, folder: Path, devices: int | None, policy: str) -> None:
        self._folder, self._devices, self._policy = folder, devices, policy
        self.loop = asyncio.new_event_loop()
        self.running: RunningDaemon
        self._thread = threading.Thread(target=self.loop.run_forever, name="muster", daemon=True)

    def open(self) -> None:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result(START_LIMIT)

    async def _open(self) -> None:
        cluster = discover(self._devices)
        pools = single_pool(cluster.devices_by_type())
        site = Site(cluster, pools, self._policy, self._folder / "jobs")
        self._store = open_store(str(self._folder / "muster.db"))
        if not self._store.claim():
            self._store.close()
            raise RuntimeError(f"another daemon uses {self._folder}")
        self.running = await open_daemon(site, self._store, executor_for(self._folder))
        self.running.begin()

    def close(self) -> None:
        if hasattr(self, "running"):
            asyncio.run_coroutine_threadsafe(self.running.close(), self.loop).result(START_LIMIT)
            self._store.close()
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join(START_LIMIT)
        self.loop.close()
