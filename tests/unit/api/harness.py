"""An API in an event loop of its own thread: asked in process, or over a real socket."""

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar, cast

import httpx
from fastapi import FastAPI

from muster.api.app import create_app
from muster.api.door.limits import Limits
from muster.api.door.listener import Tls, bound, serve, url_of
from muster.api.door.unix_socket import bound_unix
from muster.client import Client
from muster.client.connecting.in_process import InProcess
from muster.daemon.service.protocol import Service
from tests.fake_service import FakeService

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Api:
    """A service, its application, and the loop they live in."""

    service: FakeService
    app: FastAPI
    loop: asyncio.AbstractEventLoop

    def do(self, act: Callable[[], T]) -> T:
        """Do something to the service where it lives."""

        async def doing() -> T:
            return act()

        return asyncio.run_coroutine_threadsafe(doing(), self.loop).result(30)

    def http(self, token: str | None = "root") -> httpx.Client:
        """Plain requests, in process."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        inside = InProcess(self.app, self.loop)
        # Patient: the schema takes seconds to make on a machine that does ten other things.
        return httpx.Client(base_url="http://api", headers=headers, transport=inside, timeout=60)

    def client(self, token: str = "root") -> Client:
        """The client, in process."""
        return Client(token=token, transport=InProcess(self.app, self.loop))

    @contextmanager
    def listening(self, tls: Tls | None = None) -> Iterator[str]:
        """The same API on a socket of this machine; its address."""
        listening = bound()
        with self._served(listening, tls):
            yield url_of(listening, secure=tls is not None)

    @contextmanager
    def on_unix_socket(self, path: Path) -> Iterator[str]:
        """The same API on a Unix socket; its address."""
        with self._served(bound_unix(path, 0o600), None):
            yield f"unix://{path}"

    @contextmanager
    def _served(self, listening: socket.socket, tls: Tls | None) -> Iterator[None]:
        begun, stop = threading.Event(), asyncio.Event()
        context = tls.context() if tls else None
        serving = asyncio.run_coroutine_threadsafe(
            serve(self.app, [listening], stop, tls=context, ready=begun.set), self.loop
        )
        assert begun.wait(30)
        try:
            yield
        finally:
            self.loop.call_soon_threadsafe(stop.set)
            serving.result(30)


@contextmanager
def running_api(
    limits: Limits | None = None,
    *,
    auth: bool = True,
    endless: bool = True,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Api]:
    """An API with nothing in it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    service = FakeService(endless)
    app = create_app(cast(Service, service), limits=limits, auth=auth, clock=clock)
    try:
        yield Api(service, app, loop)
    finally:
        asyncio.run_coroutine_threadsafe(_ended(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


def connected(url: str) -> socket.socket:
    """A bare connection to it."""
    parts = httpx.URL(url)
    return socket.create_connection((parts.host, parts.port), timeout=30)


async def _ended() -> None:
    """Let what is under way come to its end."""
    mine = asyncio.current_task()
    left = [task for task in asyncio.all_tasks() if task is not mine]
    await asyncio.wait(left, timeout=10) if left else None
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
