"""Server-sent events: a response that lasts, says that it lives, and ends when nobody listens."""

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
"""A stream as the description has it: each event by itself."""

END = b"event: end\ndata: {}\n\n"
"""Nothing follows any more: whoever reads need not come back."""

CHECKED = 1.0
"""s between two looks at whether the caller's token still holds."""

_BEAT = b": alive\n\n"

log = structlog.get_logger("muster.api")


def event(data: object, mark: str | int) -> bytes:
    """One event; `mark` is what a reader gives back as Last-Event-ID to go on after it."""
    return b"id: %s\ndata: %s\n\n" % (str(mark).encode(), msgspec.json.encode(data))


class Streams:
    """The streams that are open: so many for each token, and an end to all when the daemon ends."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: Counter[str] = Counter()
        self._ends: set[asyncio.Event] = set()
        self._closed = False

    @contextmanager
    def place(self, key: str) -> Iterator[asyncio.Event]:
        """Hold one of a token's places, to be left when the event is set; a problem if none is left."""
        if self._open[key] >= self._most:
            detail = f"{self._most} streams are open with this token already"
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
        """End all of them; readers come back to the next daemon."""
        self._closed = True
        for end in self._ends:
            end.set()


class EventStream(Response):
    """Sends events as they come, until they end, the reader is gone or its token is revoked."""

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
        """Answer with the stream."""
        with self._streams.place(self._key) as closing:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            await _send(send, b"retry: 500\n\n")
            ends = [asyncio.create_task(_gone(receive)), asyncio.create_task(_set(closing))]
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
        spoken = checked = clock()
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
                    spoken = clock()
                elif clock() - spoken >= self._heartbeat:
                    await _send(send, _BEAT)
                    spoken = clock()
        finally:
            if coming is not None:
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            await self._events.aclose()


async def _next(events: AsyncGenerator[bytes, None]) -> bytes | None:
    """What comes next; None if nothing will. A refusal is an event of its own: the status is out."""
    try:
        return await anext(events, None)
    except ServiceError as error:
        return b"event: problem\ndata: %s\n\n" % msgspec.json.encode(of_service(error).problem)
    except Exception:
        log.exception("stream failed")
        return None


async def _gone(receive: Receive) -> bool:
    """Ends when the reader hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return True


async def _set(event: asyncio.Event) -> bool:
    """Ends when the event is set."""
    return await event.wait()


async def _send(send: Send, piece: bytes) -> None:
    await send({"type": "http.response.body", "body": piece, "more_body": True})
