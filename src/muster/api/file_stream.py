"""Files of a job, from the frames of a visit: `wire/visits/visits.py` says what comes."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from muster.api.problem import ProblemError
from muster.api.streams import CHECKED, Streams
from muster.wire.visits.frames import LONGEST, BadFrameError, Frames, Received, StreamData, StreamNote
from muster.wire.visits.splice import Ends, ends_of
from muster.wire.visits.visits import OUTPUT

ANSWER = 30.0
"""s for the first word of the node: its agent may have to connect first."""
MOST_LISTING = 4 * 2**20
"""Bytes of a listing: a thousand of the longest names."""
SAID = frozenset({403, 404, 409, 422})
"""Statuses that a node may give a refusal; any other is the daemon's own."""

Valid = Callable[[], Awaitable[bool]]


class FileVisit:
    """A visit that reads; `head` first."""

    def __init__(self, ends: Ends) -> None:
        self._reader, self._writer = ends
        self._frames = Frames()
        self._coming = self._received()

    @classmethod
    async def open(cls, beside: socket.socket) -> "FileVisit":
        """Speak with the process beside the task."""
        return cls(await ends_of(beside))

    async def head(self) -> dict[str, Any]:
        """Return what comes; ProblemError if the node refuses."""
        try:
            async with asyncio.timeout(ANSWER):
                async for one in self._coming:
                    if isinstance(one, StreamNote):
                        return _accepted(one.record)
        except TimeoutError:
            pass
        raise ProblemError(503, "the node of the task does not answer")

    async def pieces(self, most: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes, no more than that; ConnectionError if they are cut off."""
        async for one in self._coming:
            if isinstance(one, StreamData) and one.stream == OUTPUT:
                piece, most = one.data[:most], most - len(one.data)
                if piece:
                    yield piece
                if most < 0:
                    return
                self._frames.used(OUTPUT, len(one.data))
                await self._flush()
            elif isinstance(one, StreamNote) and one.record.get("what") == "exit":
                return
        raise ConnectionError("the task's node is gone")

    def close(self) -> None:
        """End the visit."""
        self._writer.transport.abort()

    async def _received(self) -> AsyncGenerator[Received, None]:
        with contextlib.suppress(OSError, BadFrameError):
            while data := await self._reader.read(LONGEST):
                for one in self._frames.receive(data):
                    yield one

    async def _flush(self) -> None:
        self._writer.write(bytes(self._frames.outgoing))
        self._frames.outgoing.clear()
        await self._writer.drain()


def _accepted(record: dict[str, Any]) -> dict[str, Any]:
    if record.get("what") in ("file", "folder"):
        return record
    status = record.get("status")
    raise ProblemError(status if status in SAID else 503, str(record.get("why", "refused")))


class FileStream(Response):
    """Sends a file until it ends, the reader disconnects or its token is revoked."""

    def __init__(
        self,
        visit: FileVisit,
        size: int,
        headers: dict[str, str],
        *,
        streams: Streams,
        key: str,
        valid: Valid,
    ) -> None:
        super().__init__(headers={**headers, "Content-Length": str(size)})
        self._visit, self._size = visit, size
        self._streams, self._key, self._valid = streams, key, valid

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with contextlib.closing(self._visit), self._streams.place(self._key) as closing:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            work = asyncio.create_task(self._pass_on(send))
            ends = {
                work,
                asyncio.create_task(closing.wait()),
                asyncio.create_task(_gone(receive)),
                asyncio.create_task(self._revoked()),
            }
            try:
                await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in ends:
                    task.cancel()
                await asyncio.gather(*ends, return_exceptions=True)
        if not work.cancelled():
            work.result()  # cut off: the length that was promised tells the reader so

    async def _pass_on(self, send: Send) -> None:
        async for piece in self._visit.pieces(self._size):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _revoked(self) -> None:
        while await self._valid():
            await asyncio.sleep(CHECKED)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
