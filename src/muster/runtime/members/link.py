"""A task's connection to its coordinator. Training never waits for it.

Messages are kept until the coordinator acknowledges them (`Received`); the next connection resends
those it did not, in order. A coordinator may see a message twice; formation and step tell.
"""

import contextlib
import logging
import os
import socket
import threading
from collections import deque
from collections.abc import Callable
from itertools import islice

from muster.runtime.settings import TaskSettings
from muster.wire.agents.tls_stream import TlsStream
from muster.wire.tasks.channel import Channel, LineTooLongError
from muster.wire.tasks.codec import BadMessageError
from muster.wire.tasks.introduction import UntrustedError, introduce
from muster.wire.tasks.messages import Changed, Hello, Message, Ready, Received, StepDone, Transferred

KEPT = 10_000
"""Messages queued at most (3 MB at 300 bytes each); beyond that the oldest measurements are dropped."""

BATCH = 1_000
"""Unacknowledged messages at most: they are resent when a connection breaks."""

LINGER = 0.05
"""Seconds that measurements wait for more: short steps should not wake a thread each."""

FIRST_PAUSE, LAST_PAUSE = 0.1, 2.0
"""Seconds between attempts to connect: doubled from the first to the last."""

CONNECT_TIMEOUT = 5.0
"""Seconds; a silent node is retried like one that refuses."""

SILENCE_MS = 30_000
"""Milliseconds of TCP silence after which the connection counts as broken: a power loss would otherwise
go unnoticed for a quarter of an hour."""


_log = logging.getLogger("muster")


class CoordinatorLink:
    """Reports to the coordinator and passes on its orders. Does nothing without one."""

    def __init__(
        self, settings: TaskSettings, address: str, on_message: Callable[[Message], None]
    ) -> None:
        """`address`: where peers reach this task; `on_message` is called by the link's thread."""
        self.formation = 0
        """For the next `Hello`; set when a formation begins."""
        self.dropped = 0
        """Messages given up: measurements above `KEPT`, and what JSON cannot hold."""
        self._settings, self._address, self._on_message = settings, address, on_message
        self._changed = threading.Condition()
        self._waiting: deque[Message] = deque()
        self._under_way: deque[Message] = deque()
        self._answered = 0
        """Acknowledged messages of this connection."""
        self._connection: Channel | None = None
        self._welcome = False
        self._urgent = self._closed = self._ready = False
        self._last_change: Changed | None = None
        self._said = ""
        """The last complaint about whoever listens."""
        self._thread: threading.Thread | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> None:
        """Start connecting, in a thread."""
        if self._settings.coordinator and self._thread is None:
            self._thread = threading.Thread(target=self._run, name="muster-link", daemon=True)
            self._thread.start()

    def send(self, message: Message) -> None:
        """Queue a message; never waits or raises."""
        if self._settings.coordinator is None:
            return
        with self._changed:
            self._waiting.append(message)
            if len(self._waiting) > KEPT:
                self._drop_oldest()
            if not _is_measurement(message):
                self._urgent = True
                # A later coordinator must hear these, even if an earlier one has.
                self._ready = self._ready or isinstance(message, Ready)
                self._last_change = message if isinstance(message, Changed) else self._last_change
            if self._urgent or len(self._waiting) == 1:
                self._changed.notify_all()

    def is_heard(self, message: Message) -> bool:
        """Return whether the coordinator has acknowledged this very message; True without one."""
        with self._changed:
            kept = (*self._waiting, *self._under_way)
            return not any(other is message for other in kept)

    def flush(self, timeout: float) -> bool:
        """Wait until all messages are acknowledged; False on timeout."""
        if self._settings.coordinator is None:
            return True
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._closed or self._is_said(), timeout)
            return self._is_said()

    def close(self) -> None:
        """End connection and threads; drops what is queued (`flush` first)."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            connection = self._connection
        if connection:
            connection.close()
        if self._thread and threading.current_thread() not in (self._thread, self._reader):
            self._thread.join(CONNECT_TIMEOUT + 1.0)

    def _drop_oldest(self) -> None:
        for place, message in enumerate(self._waiting):
            if _is_measurement(message):
                del self._waiting[place]
                self.dropped += 1
                return

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed:
            with contextlib.suppress(OSError):
                self._serve(self._connect())
            # Do not hurry a coordinator that accepts the connection and then refuses the task.
            pause = FIRST_PAUSE if self._welcome else min(2 * pause, LAST_PAUSE)
            with self._changed:
                self._changed.wait_for(lambda: self._closed, pause)

    def _connect(self) -> Channel:
        assert self._settings.coordinator is not None
        sock = socket.create_connection(self._settings.coordinator, CONNECT_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENCE_MS)
        own, plain = self._settings, Channel(sock)
        try:
            stream = TlsStream(sock) if own.encrypted else None
            channel, binding = (Channel(stream), stream.binding) if stream else (plain, "")
            introduce(channel, own.user, own.job, own.task, own.token, binding)
        except OSError as problem:
            plain.close()
            if isinstance(problem, UntrustedError):
                self._complain(problem)
            raise
        sock.settimeout(None)
        return channel

    def _complain(self, problem: UntrustedError) -> None:
        """Say once why no coordinator is reported to: the training goes on, and nobody else would."""
        if str(problem) != self._said:
            self._said = str(problem)
            where = "{}:{}".format(*self._settings.coordinator or ("", 0))
            _log.warning("not reporting to whoever listens at %s: %s", where, problem)

    def _serve(self, channel: Channel) -> None:
        """Run one connection, from its `Hello` to its end."""
        with self._changed:
            self._connection, self._welcome, self._answered = channel, False, 0
            self._take_back()
            self._urgent = bool(self._waiting)
        self._reader = threading.Thread(
            target=self._read, args=(channel,), name="muster-link-in", daemon=True
        )
        self._reader.start()
        try:
            channel.send(self._hello())
            while batch := self._next_batch(channel):
                channel.send_lines(self._lines(channel, batch))
        finally:
            channel.close()
            self._reader.join()

    def _hello(self) -> Hello:
        own = self._settings
        who = (own.job, own.task, own.role, self._address, os.getpid())
        return Hello(*who, formation=self.formation, ready=self._ready, device=own.device)

    def _take_back(self) -> None:
        """Requeue unacknowledged messages of the last connection.

        The last change of members goes first even if acknowledged: a new coordinator must learn who the
        members are.
        """
        self._waiting.extendleft(reversed(self._under_way))
        self._under_way.clear()
        change = self._last_change
        if change is not None and not any(message is change for message in self._waiting):
            self._waiting.appendleft(change)

    def _next_batch(self, channel: Channel) -> list[Message]:
        """Return what to send now; empty when the connection is over."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_over(channel) or (self._waiting and len(self._under_way) < BATCH)
            )
            self._changed.wait_for(lambda: self._is_over(channel) or self._urgent, LINGER)
            if self._is_over(channel):
                return []
            batch = list(islice(self._waiting, BATCH - len(self._under_way)))
            for _ in batch:
                self._waiting.popleft()
            self._under_way.extend(batch)
            self._urgent = self._urgent and bool(self._waiting)
            return batch

    def _lines(self, channel: Channel, batch: list[Message]) -> list[bytes]:
        """Encode a batch without the lock: `send` must not wait for it."""
        lines = []
        for message in batch:
            try:
                lines.append(channel.line(message))
            except BadMessageError:
                with self._changed:
                    self.dropped += 1
                    kept = [other for other in self._under_way if other is not message]
                    self._under_way = deque(kept)
                    self._changed.notify_all()
        return lines

    def _is_said(self) -> bool:
        return not (self._waiting or self._under_way)

    def _is_over(self, channel: Channel) -> bool:
        return self._closed or self._connection is not channel

    def _read(self, channel: Channel) -> None:
        """Handle acknowledgements, and pass on the rest, until the connection ends."""
        try:
            while (message := _next_known(channel)) is not None:
                if isinstance(message, Received):
                    self._note_received(message.count)
                else:
                    self._on_message(message)
        finally:
            with self._changed:
                if self._connection is channel:
                    self._connection = None
                self._changed.notify_all()

    def _note_received(self, count: int) -> None:
        with self._changed:
            self._welcome = True
            for _ in range(min(count - self._answered, len(self._under_way))):
                self._under_way.popleft()
            self._answered = max(count, self._answered)
            self._changed.notify_all()


def _next_known(channel: Channel) -> Message | None:
    """Return the next message, skipping unknown ones of a newer coordinator."""
    while True:
        try:
            return channel.receive()
        except LineTooLongError:
            return None
        except BadMessageError:
            continue


def _is_measurement(message: Message) -> bool:
    return isinstance(message, StepDone | Transferred)
