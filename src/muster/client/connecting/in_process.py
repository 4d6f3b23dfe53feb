"""A transport to an API in the same process, streams included.

The application runs in an event loop of another thread; the client blocks in its own.
"""

import asyncio
import concurrent.futures
import queue
import weakref
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from muster.client.connecting.http import httpx

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]

AHEAD = 16
"""Unread parts of a body to buffer: a stream that nobody reads must not fill the memory."""

_END = object()


class InProcess(httpx.BaseTransport):
    """Sends requests to an ASGI application in the event loop of another thread."""

    def __init__(self, app: App, loop: asyncio.AbstractEventLoop) -> None:
        self._app, self._loop = app, loop
        self._under_way: weakref.WeakSet[_Exchange] = weakref.WeakSet()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Return when the answer begins; its body is streamed."""
        exchange = _Exchange(request, self._loop, request.read())
        self._under_way.add(exchange)
        exchange.task = asyncio.run_coroutine_threadsafe(exchange.run(self._app), self._loop)
        start = exchange.take()
        if start is _END:
            raise httpx.RemoteProtocolError("the application did not answer", request=request)
        assert isinstance(start, dict)
        return httpx.Response(
            start["status"], headers=start["headers"], stream=_Body(exchange), request=request
        )

    def close(self) -> None:
        """End what is under way, such as a stream that another thread follows."""
        for exchange in list(self._under_way):
            exchange.end()


class _Exchange:
    """One request and its answer, between two threads."""

    def __init__(self, request: httpx.Request, loop: asyncio.AbstractEventLoop, body: bytes) -> None:
        self._request, self._loop, self._body = request, loop, body
        self._parts: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._room = asyncio.Semaphore(AHEAD)
        self._gone = asyncio.Event()
        self._asked = False
        self._patience: float | None = request.extensions.get("timeout", {}).get("read")
        self.task: concurrent.futures.Future[None] | None = None

    async def run(self, app: App) -> None:
        """In the application's loop: run it."""
        try:
            await app(_scope(self._request), self._receive, self._send)
        except Exception as error:
            self._parts.put(error)
        finally:
            self._parts.put(_END)

    def take(self) -> object:
        """In the client's thread: the next part, `_END` after the last."""
        try:
            part = self._parts.get(timeout=self._patience)
        except queue.Empty:
            self.leave()
            raise httpx.ReadTimeout("no data in time", request=self._request) from None
        if isinstance(part, Exception):
            raise httpx.RemoteProtocolError(str(part), request=self._request) from part
        if isinstance(part, bytes):
            self._loop.call_soon_threadsafe(self._room.release)
        return part

    def leave(self) -> None:
        """In the client's thread: stop reading."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._gone.set)
            self._loop.call_soon_threadsafe(self._room.release)

    def end(self) -> None:
        """In any thread: leave, and let whoever reads see the end."""
        self.leave()
        self._parts.put(_END)

    async def _receive(self) -> Message:
        if not self._asked:
            self._asked = True
            return {"type": "http.request", "body": self._body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._parts.put(dict(message))
        elif message.get("body") and not self._gone.is_set():
            await self._room.acquire()
            self._parts.put(bytes(message["body"]))


class _Body(httpx.SyncByteStream):
    def __init__(self, exchange: _Exchange) -> None:
        self._exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        while (part := self._exchange.take()) is not _END:
            assert isinstance(part, bytes)
            yield part

    def close(self) -> None:
        """Stop reading; the application sees a disconnect."""
        self._exchange.leave()


def _scope(request: httpx.Request) -> Message:
    url = request.url
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": request.method,
        "scheme": url.scheme,
        "path": url.path,
        "raw_path": url.raw_path.partition(b"?")[0],
        "query_string": url.query,
        "root_path": "",
        "headers": [(name.lower(), value) for name, value in request.headers.raw],
        "client": ("127.0.0.1", 0),
        "server": (url.host, url.port or 80),
    }
