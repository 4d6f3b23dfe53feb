"""Several streams of bytes, and small notes, over one connection.

Each stream has a window: its sender is at most `WINDOW` bytes ahead of what the receiver has used, so a
stream that nobody reads holds up no other, and neither end keeps more than a window of each. No socket
in here: bytes that came go into `receive`, bytes to send are taken from `outgoing`.
"""

import json
import struct
from collections import Counter
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

HEADER = struct.Struct(">BII")
"""Kind, stream, bytes that follow (of `TAKEN`: bytes used, and none follow)."""
WINDOW = 256 * 2**10
"""Bytes of a stream on their way: a round trip of 20 ms at 12 MB/s, and memory for hundreds of
streams."""
LONGEST = 64 * 2**10
"""Bytes of one frame."""
MOST_STREAMS = 1024


class FrameKind(IntEnum):
    """What a frame is."""

    DATA = 1
    TAKEN = 2
    END = 3
    NOTE = 4


class BadFrameError(ValueError):
    """The other end does not keep to the protocol."""


@dataclass(frozen=True, slots=True)
class StreamData:
    """Bytes of a stream."""

    stream: int
    data: bytes


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """No more bytes of this stream will come."""

    stream: int


@dataclass(frozen=True, slots=True)
class StreamNote:
    """A small message beside the streams."""

    record: dict[str, Any]


Received = StreamData | StreamEnd | StreamNote


class Frames:
    """One end of a connection."""

    def __init__(self) -> None:
        self.outgoing = bytearray()
        self._incoming = bytearray()
        self._ahead: Counter[int] = Counter()
        """Bytes of each stream that were sent and are not used yet."""
        self._unused: Counter[int] = Counter()
        """Bytes of each stream that came and are not used yet."""

    def room(self, stream: int) -> int:
        """Return how many bytes of a stream may be sent now."""
        return WINDOW - self._ahead[stream]

    def send(self, stream: int, data: bytes) -> None:
        """Send bytes, at most as many as there is room for."""
        if len(data) > self.room(stream):
            raise ValueError(f"{len(data)} bytes where there is room for {self.room(stream)}")
        self._ahead[stream] += len(data)
        for begin in range(0, len(data), LONGEST):
            self._put(FrameKind.DATA, stream, data[begin : begin + LONGEST])

    def end(self, stream: int) -> None:
        """Say that no more bytes of a stream will come."""
        self._put(FrameKind.END, stream, b"")

    def note(self, **record: Any) -> None:
        """Send a note."""
        data = json.dumps(record, separators=(",", ":")).encode()
        if len(data) > LONGEST:
            raise ValueError(f"a note of {len(data)} bytes, above {LONGEST}")
        self._put(FrameKind.NOTE, 0, data)

    def used(self, stream: int, count: int) -> None:
        """Say how many bytes of a stream were used: as many more may come."""
        if count and stream in self._unused:
            self._unused[stream] -= count
            self.outgoing += HEADER.pack(FrameKind.TAKEN, stream, count)

    def receive(self, data: bytes) -> list[Received]:
        """Take bytes that came; return what they complete."""
        self._incoming += data
        found: list[Received] = []
        while (one := self._next()) is not None:
            if not isinstance(one, int):
                found.append(one)
        return found

    def forget(self, stream: int) -> None:
        """Forget a stream whose number will be used again, or never."""
        self._ahead.pop(stream, None)
        self._unused.pop(stream, None)

    def _put(self, kind: FrameKind, stream: int, data: bytes) -> None:
        self.outgoing += HEADER.pack(kind, stream, len(data))
        self.outgoing += data

    def _next(self) -> Received | int | None:
        """Take the next frame off; None: it is not complete, a number: it was about a window."""
        if len(self._incoming) < HEADER.size:
            return None
        kind, stream, length = HEADER.unpack_from(self._incoming)
        if kind == FrameKind.TAKEN:
            del self._incoming[: HEADER.size]
            return self._take_back(stream, length)
        if length > LONGEST:
            raise BadFrameError(f"a frame of {length} bytes")
        end = HEADER.size + length
        if len(self._incoming) < end:
            return None
        data = bytes(self._incoming[HEADER.size : end])
        del self._incoming[:end]
        match kind:
            case FrameKind.DATA:
                return self._checked(stream, data)
            case FrameKind.END:
                return StreamEnd(stream)
            case FrameKind.NOTE:
                return StreamNote(_record(data))
        raise BadFrameError(f"a frame of kind {kind}")

    def _take_back(self, stream: int, count: int) -> int:
        if stream not in self._ahead:
            return count  # forgotten meanwhile
        if count > self._ahead[stream]:
            raise BadFrameError(f"{count} bytes of stream {stream} were used, more than were sent")
        self._ahead[stream] -= count
        return count

    def _checked(self, stream: int, data: bytes) -> StreamData:
        self._unused[stream] += len(data)
        if self._unused[stream] > WINDOW or len(self._unused) > MOST_STREAMS:
            raise BadFrameError(f"more of stream {stream} than its window")
        return StreamData(stream, data)


def _record(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise BadFrameError("a note that is not JSON") from None
    if not isinstance(found, dict):
        raise BadFrameError("a note that is not a JSON object")
    return found
