"""A job's logs as they are written: one, or all."""

import asyncio
import codecs
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field

from muster.api.streams import END, event
from muster.daemon.service.protocol import Caller, NotFoundError, Service
from muster.wire.api.records import OVER, JobDetail

FIRST_POLL, POLL = 0.02, 0.2
"""s between two reads of idle logs, just after the job has changed and later: below what a reader
notices."""

LOOK = 2.0
"""s after which the job is checked again without an event."""

CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class LogText:
    """The text of a log from `offset` to `next`."""

    log: str
    offset: int
    next: int
    text: str


def mark_of(offsets: Mapping[str, int]) -> str:
    """Write the offset of each log as an event's id: `1/worker-0=512,1/worker-1=80`."""
    return ",".join(f"{log}={offset}" for log, offset in offsets.items())


def offsets_of(mark: str) -> dict[str, int]:
    """Parse such an id; ValueError if it is none."""
    return {
        log: int(offset) for log, _, offset in (each.partition("=") for each in mark.split(",") if each)
    }


@dataclass(slots=True)
class LogFollower:
    """Reads a job's logs for one reader; `only`: just this one."""

    service: Service
    who: Caller
    which: str
    only: str | None
    offset: int
    """Where reading begins in logs that already exist."""
    read: dict[str, int] = field(default_factory=dict)
    """How far each log was read."""
    _ended: set[str] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _pause: float = FIRST_POLL

    async def events(self) -> AsyncGenerator[bytes, None]:
        """Yield what the logs say, and `end` once they are complete."""
        watch = asyncio.create_task(self._watch())
        try:
            detail = await self._look(first=True)
            while True:
                moved = False
                for log in [log for log in self.read if log not in self._ended]:
                    piece = await self._piece(log, _finished(log, detail))
                    if piece is not None:
                        moved = True
                        yield event(piece, mark_of(self.read))
                if not moved and not self._more(detail):
                    break
                if not moved:
                    detail = await self._wait(detail)
            yield END
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    def _more(self, detail: JobDetail) -> bool:
        if any(log not in self._ended for log in self.read):
            return True
        return self.only is None and detail.job.status not in OVER

    async def _wait(self, detail: JobDetail) -> JobDetail:
        """Wait a moment; return the job's new state if it has changed."""
        loop = asyncio.get_running_loop()
        until = loop.time() + (self._pause if self.read else LOOK)
        try:
            async with asyncio.timeout_at(until):
                await self._changed.wait()
        except TimeoutError:
            self._pause = min(2 * self._pause, POLL)
            return detail
        self._changed.clear()
        self._pause = FIRST_POLL
        return await self._look()

    async def _look(self, first: bool = False) -> JobDetail:
        detail = await self.service.job(self.who, self.which)
        logs = [self.only] if self.only is not None else [task.log for task in detail.tasks]
        for log in logs:
            self.read.setdefault(log, self.offset if first else 0)
        return detail

    async def _watch(self) -> None:
        """Signal every event of the job, and once in a while without one."""
        async for _ in self.service.follow(self.who, None, self.which):
            self._changed.set()
        while True:
            self._changed.set()
            await asyncio.sleep(LOOK)

    async def _piece(self, log: str, finished: bool) -> LogText | None:
        """Return the next part of a log, in whole characters; None if there is nothing new."""
        try:
            piece = await self.service.log(self.who, self.which, log, self.read[log], CHUNK)
        except NotFoundError:  # not started yet, or already deleted
            piece = None
        if piece is None or not piece.data:
            if finished:
                self._ended.add(log)
            return None
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(piece.data, final=finished)
        if not text:
            return None
        self.read[log] = piece.offset + len(piece.data) - len(decoder.getstate()[0])
        return LogText(log, piece.offset, self.read[log], text)


def _finished(log: str, detail: JobDetail) -> bool:
    """Whether a log is complete: its tasks have ended and will not be replaced."""
    if detail.job.status in OVER:
        return True
    tasks = [task for task in detail.tasks if task.log == log]
    ended = all(task.status == "ended" for task in tasks)
    return ended and all(task.generation < detail.job.generation for task in tasks)
