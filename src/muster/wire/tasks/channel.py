"""Messages over a stream socket, one per line. Any thread may send; one thread receives."""

import contextlib
import socket
import threading
import time
from collections.abc import Iterable

from muster.wire.agents.tls_stream import TlsStream
from muster.wire.tasks.codec import BadMessageError, decode, encode
from muster.wire.tasks.messages import Message

LINE_LIMIT = 4 * 2**20
"""Bytes of the longest line. The longest message, the shape of a model with 10,000 tensors, takes about
1 MiB at 100 bytes per tensor; a longer line is not a message."""

_CHUNK = 64 * 1024


class LineTooLongError(BadMessageError):
    """A line above the limit: its end is unknown, so the connection is unusable."""


class Channel:
    """One connection that carries messages both ways."""

    def __init__(self, sock: socket.socket | TlsStream, limit: int = LINE_LIMIT) -> None:
        self._socket, self.limit = sock, limit
        self._sending = threading.Lock()
        self._buffer = bytearray()
        self._scanned = 0
        """Leading bytes of the buffer without a newline."""

    def send(self, *messages: Message) -> None:
        """Send all messages at once, or none if one is too long; `OSError` if disconnected."""
        self.send_lines(self.line(message) for message in messages)

    def line(self, message: Message) -> bytes:
        """Encode a message; `BadMessageError` if that is impossible."""
        line = encode(message)
        if len(line) > self.limit:
            kind = type(message).__name__
            raise LineTooLongError(f"{kind} takes {len(line)} bytes, above the limit of {self.limit}")
        return line

    def send_lines(self, lines: Iterable[bytes]) -> None:
        """Send encoded lines at once."""
        data = b"".join(lines)
        with self._sending:
            self._socket.sendall(data)

    def receive(self, until: float | None = None) -> Message | None:
        """Return the next message; None when the connection has ended. Drops an incomplete last line.

        `until`: a time of `time.monotonic` at which it counts as ended; None: the socket's own timeout.
        After a `BadMessageError` the next call returns the next line, except after `LineTooLongError`.
        """
        while (end := self._buffer.find(b"\n", self._scanned)) < 0:
            self._scanned = len(self._buffer)
            if len(self._buffer) > self.limit:
                raise LineTooLongError(f"a line above the limit of {self.limit} bytes")
            try:
                if until is not None:
                    self._socket.settimeout(max(1e-3, until - time.monotonic()))
                data = self._socket.recv(_CHUNK)
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        self._scanned = 0
        if len(line) > self.limit:
            raise LineTooLongError(f"a line of {len(line)} bytes, above the limit of {self.limit}")
        return decode(line)

    def close(self) -> None:
        """End the connection and wake whoever waits in it. Idempotent; callable from any thread."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
