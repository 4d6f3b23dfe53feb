"""Server-sent events, with heartbeats; a stream ends when its reader disconnects."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import contextmanager

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster.api.problem import ProblemError, of_service
from muster.daemon.service.protocol import ServiceError

EVENT_STREAM = "text/event-stream"
EVENT_CONTENT = {
    EVENT_STREAM: {
        "schema": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("event", "id", "data")},
            "required": ["data"],
        }
    }
}
"""The OpenAPI description of a stream's events."""

END = b"event: end\ndata: {}\n\n"
"""The stream is complete: its reader need not reconnect."""

CHECKED = 1.0
"""s between two checks of the caller's token."""

_BEAT = b": alive\n\n"

log = structlog.get_logger("muster.api")


def event(data: object, mark: str | int) -> bytes:
    """Encode an event; `mark`: what a reader sends as Last-Event-ID to resume after it."""
    return b"id: %s\ndata: %s\n\n" % (str(mark).encode(), msgspec.json.encode(data))


class Streams:
    """The open streams: limited per token, and ended when the daemon stops."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._ends: set[asyncio.Event] = set()
        self._closed = False

    @contextmanager
    def place(self, key: str) -> Iterator[asyncio.Event]:
        """Take one of a token's streams until the event is set; ProblemError if all are in use."""
        if self._open[key] >= self._most:
            detail = f"{self._most} streams are already open with this token"
            raise ProblemError(429, detail, headers={"Retry-After": "1"})
        end = asyncio.Event()
        if self._closed:
            end.set()
        self._open[key] += 1
        self._ends.add(end)
        try:
            yield end
        finally:
            self._ends.discard(end)
            self._open[key] -= 1
            if not self._open[key]:
                del self._open[key]

    def close(self) -> None:
        """End all streams; readers reconnect to the next daemon."""
        self._closed = True
        for end in self._ends:
            end.set()


class EventStream(Response):
    """Sends events until they end, the reader disconnects or its token is revoked."""

    media_type = EVENT_STREAM

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        *,
        streams: Streams,
        key: str,
        heartbeat: float,
        valid: Callable[[], Awaitable[bool]],
    ) -> None:
        super().__init__(headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._events, self._streams, self._key = events, streams, key
        self._heartbeat, self._valid = heartbeat, valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._streams.place(self._key) as closing:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await _send(send, b"retry: 500\n\n")
            ends: list[asyncio.Task[bool]] = [
                asyncio.create_task(_gone(receive)),
                asyncio.create_task(closing.wait()),
            ]
            try:
                await self._pass_on(send, ends)
            finally:
                for end in ends:
                    end.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        if ends[0].cancelled():
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pass_on(self, send: Send, ends: "list[asyncio.Task[bool]]") -> None:
        clock = asyncio.get_running_loop().time
        sent = checked = clock()
        coming: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                coming = coming or asyncio.create_task(_next(self._events))
                pause = min(self._heartbeat, CHECKED)
                await asyncio.wait({coming, *ends}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
                if any(end.done() for end in ends):
                    return
                if clock() - checked >= CHECKED:
                    checked = clock()
                    if not await self._valid():
                        return
                if coming.done():
                    piece, coming = coming.result(), None
                    if piece is None:
                        return
                    await _send(send, piece)
                    sent = clock()
                elif clock() - sent >= self._heartbeat:
                    await _send(send, _BEAT)
                    sent = clock()
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            await self._events.aclose()


async def _next(events: AsyncGenerator[bytes, None]) -> bytes | None:
    """Return the next event, or None. An error becomes an event: the status was already sent."""
    try:
        return await anext(events, None)
    except ServiceError as error:
        return b"event: problem\ndata: %s\n\n" % msgspec.json.encode(of_service(error).problem)
    except Exception:
        log.exception("stream failed")
        return None


async def _gone(receive: Receive) -> bool:
    while (await receive())["type"] != "http.disconnect":
        pass
    return True


async def _send(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})
