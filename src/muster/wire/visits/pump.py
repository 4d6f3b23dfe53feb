"""Moves bytes between file descriptors and the streams of one connection. Linux, one thread."""

import contextlib
import os
import select
import socket
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.wire.visits.frames import LONGEST, BadFrameError, Frames, StreamData, StreamEnd, StreamNote

AHEAD = 1 << 20
"""Bytes for the connection above which nothing more is read."""
SAFE = select.PIPE_BUF
"""Bytes that a descriptor takes without blocking once it is writable: it may be somebody else's, whose
mode must not be changed."""

PARTING = 5.0
"""s for the other end to close."""

READABLE = select.POLLIN | select.POLLHUP | select.POLLERR
"""Events after which reading does not block."""

Hear = Callable[[StreamNote], None]
Tap = Callable[[bytes], bytes]


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(slots=True)
class _Source:
    """A descriptor that is read for a stream."""

    stream: int
    tap: Tap | None
    ended: Callable[[], None]


@dataclass(slots=True)
class _Target:
    """A descriptor that a stream is written to."""

    descriptor: int
    ended: Callable[[], None]
    came: Callable[[bytes], None]
    waiting: bytearray = field(default_factory=bytearray)
    ending: bool = False
    broken: bool = False


class Pump:
    """Runs one connection to its end. `hear`: called with each note; `writes_rest`: whether to write
    what came even after the other end is gone."""

    def __init__(self, sock: socket.socket, hear: Hear, *, writes_rest: bool = False) -> None:
        sock.setblocking(False)
        self.frames = Frames()
        self.connected = True
        """Whether the other end is there."""
        self._sock, self._hear, self._writes_rest = sock, hear, writes_rest
        self._sources: dict[int, _Source] = {}
        self._targets: dict[int, _Target] = {}
        self._watched: dict[int, Callable[[], None]] = {}
        self._timers: list[tuple[float, Callable[[], None]]] = []
        self._quiet: Callable[[], None] | None = None
        self._stopped = False

    # --- what to move ---

    def feed(
        self,
        stream: int,
        descriptor: int,
        tap: Tap | None = None,
        ended: Callable[[], None] = _nothing,
    ) -> None:
        """Send what is read from a descriptor as a stream. `tap`: sees it first, and returns what to
        send; `ended`: called at the end of it."""
        self._sources[descriptor] = _Source(stream, tap, ended)

    def drain(
        self,
        stream: int,
        descriptor: int,
        ended: Callable[[], None] = _nothing,
        came: Callable[[bytes], None] = _nothing,
    ) -> None:
        """Write a stream to a descriptor. `came`: called with what came of it; `ended`: when all of it
        is written."""
        self._targets[stream] = _Target(descriptor, ended, came)

    def join(self, stream: int, connection: socket.socket) -> None:
        """Move bytes between a stream and another connection, both ways, until both have ended."""
        connection.setblocking(False)
        ways = {"in", "out"}

        def end(way: str) -> None:
            ways.discard(way)
            if way == "out":
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
            if not ways:
                connection.close()
                self.forget(stream)

        self.feed(stream, connection.fileno(), ended=lambda: end("in"))
        self.drain(stream, connection.fileno(), ended=lambda: end("out"))

    def put(self, stream: int, data: bytes) -> None:
        """Send bytes of our own, as far as there is room."""
        self.frames.send(stream, data[: self.frames.room(stream)])

    def watch(self, descriptor: int, call: Callable[[], None]) -> None:
        """Call something whenever a descriptor can be read."""
        self._watched[descriptor] = call

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call something once, after that time."""
        self._timers.append((time.monotonic() + seconds, call))

    def leave(self, descriptor: int) -> None:
        """No longer read a descriptor."""
        self._sources.pop(descriptor, None)
        self._watched.pop(descriptor, None)

    def forget(self, stream: int) -> None:
        """No longer write a stream anywhere."""
        self._targets.pop(stream, None)
        self.frames.forget(stream)

    # --- how it ends ---

    def when_quiet(self, call: Callable[[], None]) -> None:
        """Call something once nothing more can be read from any source at once."""
        self._quiet = call

    def stop(self) -> None:
        """End `run` once all that came is written and all that was sent has gone out."""
        self._stopped = True

    def abandon(self) -> None:
        """End `run` now."""
        self._stopped, self._writes_rest, self.connected = True, False, False

    def run(self) -> None:
        """Move bytes until `stop`, or until the other end is gone."""
        while not self._done():
            self._turn()

    def _done(self) -> bool:
        unwritten = any(each.waiting for each in self._targets.values())
        if not self.connected:
            return not (unwritten and self._writes_rest)
        return self._stopped and not (unwritten or self.frames.outgoing)

    # ---

    def _turn(self) -> None:
        poll, wanted = select.poll(), self._wanted()
        sources = list(self._sources)
        asked = all(wanted.get(each, 0) & select.POLLIN for each in sources)
        quiet = self._quiet if asked else None
        for descriptor, events in wanted.items():
            poll.register(descriptor, events)
        ready = dict(poll.poll(0 if quiet is not None else self._patience()))
        self._keep_time()
        own = self._sock.fileno()
        if ready.get(own, 0):
            self._try(self._exchange)
        for descriptor in [each for each in ready if each != own]:
            self._serve(descriptor, ready[descriptor], wanted[descriptor])
        if quiet is not None and not any(ready.get(each, 0) & READABLE for each in sources):
            self._quiet = None
            quiet()
        if self.frames.outgoing:
            self._try(self._flush)

    def _try(self, use: Callable[[], None]) -> None:
        """Use the connection, if there is one."""
        try:
            if self.connected:
                use()
        except (BadFrameError, OSError):
            self.connected = False

    def _wanted(self) -> dict[int, int]:
        """Return what to wait for, by descriptor."""
        found = dict.fromkeys(self._watched, select.POLLIN)
        for target in self._targets.values():
            if target.waiting and not target.broken:
                found[target.descriptor] = found.get(target.descriptor, 0) | select.POLLOUT
        if not self.connected:
            return found
        own = select.POLLIN | (select.POLLOUT if self.frames.outgoing else 0)
        found[self._sock.fileno()] = own
        if len(self.frames.outgoing) < AHEAD:
            for descriptor, source in self._sources.items():
                if self.frames.room(source.stream) > 0:
                    found[descriptor] = found.get(descriptor, 0) | select.POLLIN
        return found

    def _patience(self) -> float | None:
        """Return the ms to wait at most."""
        if not self._timers:
            return None
        return max(0.0, min(at for at, _ in self._timers) - time.monotonic()) * 1000 + 1

    def _keep_time(self) -> None:
        now = time.monotonic()
        due = [each for each in self._timers if each[0] <= now]
        self._timers = [each for each in self._timers if each[0] > now]
        for _, call in due:
            call()

    def _exchange(self) -> None:
        """Receive until there is nothing more for now: TLS may hold what the kernel no longer has."""
        self._flush()
        while self.connected:
            try:
                data = self._sock.recv(LONGEST)
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not data:
                self.connected = False
            for one in self.frames.receive(data):
                self._take(one)

    def _flush(self) -> None:
        outgoing = self.frames.outgoing
        try:
            while outgoing:
                del outgoing[: self._sock.send(outgoing[:LONGEST])]
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return
        except OSError:  # nobody hears us any more; what the other end said last may still be unread
            outgoing.clear()

    def _take(self, one: StreamData | StreamEnd | StreamNote) -> None:
        if isinstance(one, StreamNote):
            self._hear(one)
            return
        target = self._targets.get(one.stream)
        if isinstance(one, StreamEnd):
            if target is not None:
                target.ending = True
                self._settle(one.stream, target)
        elif target is None or target.broken:
            self.frames.used(one.stream, len(one.data))
        else:
            target.waiting += one.data
            target.came(one.data)

    def _serve(self, descriptor: int, events: int, wanted: int) -> None:
        if descriptor in self._watched:
            self._watched[descriptor]()
            return
        if events & READABLE and wanted & select.POLLIN and descriptor in self._sources:
            self._read(descriptor)
        if wanted & select.POLLOUT and events & (select.POLLOUT | select.POLLERR | select.POLLHUP):
            for stream, target in list(self._targets.items()):
                if target.descriptor == descriptor and target.waiting:
                    self._write(stream, target)

    def _read(self, descriptor: int) -> None:
        source = self._sources[descriptor]
        try:
            data = os.read(descriptor, min(LONGEST, self.frames.room(source.stream)))
        except BlockingIOError:
            return
        except OSError:  # a terminal whose other end is closed, a connection that was reset
            data = b""
        if not data:
            del self._sources[descriptor]
            self.frames.end(source.stream)
            source.ended()
            return
        self.frames.send(source.stream, source.tap(data) if source.tap is not None else data)

    def _write(self, stream: int, target: _Target) -> None:
        piece = bytes(target.waiting[: LONGEST if _is_nonblocking(target.descriptor) else SAFE])
        try:
            count = os.write(target.descriptor, piece)
        except BlockingIOError:
            return
        except OSError:  # nobody reads it any more: what comes is dropped
            target.broken, count = True, len(target.waiting)
        del target.waiting[:count]
        self.frames.used(stream, count)
        self._settle(stream, target)

    def _settle(self, stream: int, target: _Target) -> None:
        if target.ending and not target.waiting:
            self._targets.pop(stream, None)
            target.ended()


def part(sock: socket.socket) -> None:
    """End our way, and wait until the other end has ended its own: a connection that is closed while
    something is on its way to us is reset, and what we said last is lost."""
    with contextlib.suppress(OSError):
        sock.settimeout(PARTING)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(LONGEST):
            pass


def _is_nonblocking(descriptor: int) -> bool:
    return not os.get_blocking(descriptor)
