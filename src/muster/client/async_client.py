"""A daemon, from an event loop: every method of `Client`, to be awaited."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from muster.client.client import Client
from muster.client.handles.handle import Handle
from muster.wire.api.records import JobRecord

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")

THREADS = 16
"""Requests of one client at once; a wait for a job's end needs none."""
AHEAD = 64
"""Items of a stream that are read before they are asked for."""


class _Awaited(Generic[C, P, R]):
    """A method to be awaited, from one that blocks."""

    def __init__(self, method: Callable[Concatenate[C, P], R]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, kind: type) -> Callable[P, Awaitable[R]]:
        method = self._method

        async def awaited(*args: P.args, **kwargs: P.kwargs) -> R:
            found: R = await owner.in_thread(partial(method, owner.blocking, *args, **kwargs))
            return found

        awaited.__doc__ = method.__doc__
        return awaited


class _Streamed(Generic[C, P, R]):
    """An asynchronous iterator, from a method that yields."""

    def __init__(self, method: Callable[Concatenate[C, P], Iterator[R]]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, owner: Any, kind: type) -> Callable[P, AsyncIterator[R]]:
        method = self._method

        def streamed(*args: P.args, **kwargs: P.kwargs) -> AsyncIterator[R]:
            return _read(partial(method, owner.blocking, *args, **kwargs))

        streamed.__doc__ = method.__doc__
        return streamed


class _InThreads(Generic[C]):
    """What the wrapped methods need: the object that blocks, and threads to call it in."""

    def __init__(self, blocking: C, threads: ThreadPoolExecutor) -> None:
        self.blocking, self._threads = blocking, threads

    async def in_thread(self, call: Callable[[], R]) -> R:
        """Run a call in a thread; an `await` that is given up leaves it to finish there."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class AsyncHandle(_InThreads[Handle]):
    """A submitted job; `await` it for its end."""

    @property
    def number(self) -> int:
        return self.blocking.number

    @property
    def name(self) -> str:
        return self.blocking.name

    record = _Awaited(Handle.record)
    logs = _Streamed(Handle.logs)
    stop = _Awaited(Handle.stop)
    hold = _Awaited(Handle.hold)
    release = _Awaited(Handle.release)
    requeue = _Awaited(Handle.requeue)
    set_priority = _Awaited(Handle.set_priority)
    set_until = _Awaited(Handle.set_until)
    resize = _Awaited(Handle.resize)

    async def wait(self, timeout: float | None = None) -> JobRecord:
        """Wait until it has finished; TimeoutError if that takes longer than `timeout` s."""
        async with asyncio.timeout(timeout):
            return await self._ended()

    async def _ended(self) -> JobRecord:
        return await self.blocking

    def __await__(self) -> Generator[Any, None, JobRecord]:
        return self.blocking.__await__()

    def __repr__(self) -> str:
        return repr(self.blocking)


class AsyncClient(_InThreads[Client]):
    """Talks to a daemon as `Client` does; `async with` closes it. Lists and streams are `async for`.

    `client`: one to share, such as that of `muster.local()`; otherwise the parameters are `Client`'s.
    """

    def __init__(self, url: str | None = None, token: str | None = None, **more: Any) -> None:
        given: Client | None = more.pop("client", None)
        threads = ThreadPoolExecutor(THREADS, thread_name_prefix="muster-client")
        super().__init__(given or Client(url, token, **more), threads)
        self._own = given is None

    async def submit(self, job: Any, **how: Any) -> AsyncHandle:
        """Submit a job, as `Client.submit` does; `await` the handle for its end."""
        return self._handle(await self.in_thread(partial(self.blocking.submit, job, **how)))

    async def submit_script(self, script: Any, *arguments: str, **how: Any) -> AsyncHandle:
        """Submit a script, as `Client.submit_script` does."""
        call = partial(self.blocking.submit_script, script, *arguments, **how)
        return self._handle(await self.in_thread(call))

    async def handle(self, which: str | int) -> AsyncHandle:
        """Return a handle of a job that was submitted before."""
        return self._handle(await self.in_thread(partial(self.blocking.handle, which)))

    def _handle(self, found: Handle) -> AsyncHandle:
        return AsyncHandle(found, self._threads)

    jobs = _Streamed(Client.jobs)
    logs = _Streamed(Client.logs)
    events = _Streamed(Client.events)
    timeline = _Streamed(Client.timeline)

    forecast = _Awaited(Client.forecast)
    forecasts = _Awaited(Client.forecasts)
    accuracy = _Awaited(Client.accuracy)
    active_jobs = _Awaited(Client.active_jobs)
    job = _Awaited(Client.job)
    record = _Awaited(Client.record)
    stop = _Awaited(Client.stop)
    hold = _Awaited(Client.hold)
    release = _Awaited(Client.release)
    requeue = _Awaited(Client.requeue)
    set_priority = _Awaited(Client.set_priority)
    set_until = _Awaited(Client.set_until)
    resize = _Awaited(Client.resize)
    nodes = _Awaited(Client.nodes)
    map = _Awaited(Client.map)
    session_code = _Awaited(Client.session_code)
    node = _Awaited(Client.node)
    drain = _Awaited(Client.drain)
    resume = _Awaited(Client.resume)
    pools = _Awaited(Client.pools)
    set_pool = _Awaited(Client.set_pool)
    remove_pool = _Awaited(Client.remove_pool)
    limits = _Awaited(Client.limits)
    set_limits = _Awaited(Client.set_limits)
    reset_limits = _Awaited(Client.reset_limits)
    audit = _Awaited(Client.audit)
    policy = _Awaited(Client.policy)
    set_policy = _Awaited(Client.set_policy)
    tokens = _Awaited(Client.tokens)
    create_token = _Awaited(Client.create_token)
    revoke_token = _Awaited(Client.revoke_token)
    rotate_token = _Awaited(Client.rotate_token)
    invitations = _Awaited(Client.invitations)
    invite = _Awaited(Client.invite)
    remove_node = _Awaited(Client.remove_node)
    revoke_node = _Awaited(Client.revoke_node)
    rotate = _Awaited(Client.rotate)
    status = _Awaited(Client.status)
    metrics = _Awaited(Client.metrics)
    snapshot = _Awaited(Client.snapshot)
    stop_all = _Awaited(Client.stop_all)
    copy_from = _Awaited(Client.copy_from)
    copy_to = _Awaited(Client.copy_to)
    exec = _Awaited(Client.exec)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        """Any other method of `Client`, to be awaited."""
        method = getattr(Client, name, None)
        if name.startswith("_") or not callable(method):
            raise AttributeError(f"AsyncClient has no attribute {name!r}")
        return _Awaited(method).__get__(self, type(self))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in dir(Client) if name[0] != "_")})

    async def close(self) -> None:
        """Close the connection, unless it is shared."""
        if self._own:
            await self.in_thread(self.blocking.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _read(start: Callable[[], Iterator[R]]) -> AsyncIterator[R]:
    """Yield what an iterator yields in a thread of its own, which reads only a little ahead."""
    loop, over = asyncio.get_running_loop(), threading.Event()
    room = threading.Semaphore(AHEAD)
    items: asyncio.Queue[tuple[bool, Any]] = asyncio.Queue()

    def put(more: bool, item: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(items.put_nowait, (more, item))

    def read() -> None:
        try:
            for item in start():
                room.acquire()
                if over.is_set():
                    return
                put(True, item)
        except Exception as error:
            put(False, error)
        else:
            put(False, None)

    threading.Thread(target=read, name="muster-stream", daemon=True).start()
    try:
        while True:
            more, item = await items.get()
            room.release()
            if more:
                yield item
            elif item is not None:
                raise item
            else:
                return
    finally:
        over.set()
        room.release()
