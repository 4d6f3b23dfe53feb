"""A daemon for this process: no server, no port, no token; it ends with the block or the process."""

import asyncio
import atexit
import contextlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import structlog

from muster.api.app import create_app
from muster.app.guard import FolderGuard
from muster.app.standing import executor_for
from muster.client.client import Client
from muster.client.connecting.in_process import InProcess
from muster.client.connecting.settings import data_home
from muster.daemon.assembly import RunningDaemon, Site, open_daemon
from muster.daemon.service.protocol import Caller
from muster.executors.accounts import own_user
from muster.executors.discover import discover
from muster.executors.private_folder import make_private
from muster.model.pool import single_pool
from muster.store.store import open_store
from muster.wire.api.records import LIVE

START_LIMIT = 60.0
"""s for the daemon to start or stop: it takes one on an idle machine."""


def local(
    devices: int | None = None,
    *,
    policy: str = "muster",
    data: str | Path | None = None,
    keep: bool = False,
) -> Client:
    """Start a daemon with this many virtual devices, by default those of this machine; return its
    client.

    It ends with the `with` block, with `close()`, or with this process. `data`: its folder, which a
    later daemon can reuse. Without one nothing is kept, and jobs that are still live are stopped.
    `keep`: start it as a process of its own, or find the one that runs; then it stays until `muster
    down`.
    """
    if keep:
        from muster.app.kept_daemon import kept_daemon

        return kept_daemon(devices, policy, Path(data) if data else data_home())
    return LocalClient(devices, policy, Path(data) if data else None)


class LocalClient(Client):
    """A client and its daemon, which lives in a thread of this process."""

    def __init__(self, devices: int | None, policy: str, data: Path | None) -> None:
        _silence_log()
        self._stack = contextlib.ExitStack()
        try:
            folder = data or self._own_folder()
            make_private(folder)
            thread = _DaemonThread(folder, devices, policy)
            self._stack.callback(thread.close)
            thread.open()
            app = create_app(thread.running.service, auth=False, owner=Caller(own_user(), True))
            super().__init__(transport=InProcess(app, thread.loop))
            self._stack.callback(super().close)
            if data is None:
                self._stack.callback(_stop_all, self)
        except BaseException:
            self._stack.close()
            raise
        _at_exit(self.close)

    def __repr__(self) -> str:
        """Whose daemon it is."""
        return "<muster client of a daemon of this process>"

    def close(self) -> None:
        """End the daemon; jobs that none could reattach to are stopped. Idempotent."""
        self._stack.close()

    def _own_folder(self) -> Path:
        """Return a folder that goes with the daemon, however this process ends."""
        folder = Path(tempfile.mkdtemp(prefix="muster-"))
        self._stack.callback(shutil.rmtree, folder, ignore_errors=True)
        guard = FolderGuard(folder)
        self._stack.callback(guard.dismiss)
        return folder


def _silence_log() -> None:
    """The log is the daemon's; a script that uses one by the way prints what it likes itself."""
    if not structlog.is_configured():
        quiet = structlog.make_filtering_bound_logger(logging.WARNING)
        structlog.configure(wrapper_class=quiet)


def _at_exit(close: Callable[[], None]) -> None:
    """Call this at the end of this process, not of one forked from it, while threads can still be
    started: `atexit` comes too late for a daemon."""
    ours = os.getpid()
    # The way of `concurrent.futures`; what is registered last is called first.
    register = getattr(threading, "_register_atexit", atexit.register)
    register(lambda: close() if os.getpid() == ours else None)


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
