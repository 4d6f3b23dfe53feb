"""Whole messages over a socket pair, each within a deadline."""

import select
import socket
import struct
import time

_LENGTH = struct.Struct("!Q")
_PIECE = 1 << 20


class HungUpError(Exception):
    """The other end is gone, or did not take or give a message in time."""


class MessageLine:
    """One end of a socket pair."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    def send(self, *messages: bytes, within: float | None = None) -> None:
        """Send these messages; `within` s, or None: however long it takes."""
        end = None if within is None else time.monotonic() + within
        for message in messages:
            self._send(_LENGTH.pack(len(message)), end)
            self._send(message, end)

    def receive(self, within: float | None = None) -> bytes:
        """Wait for a message."""
        end = None if within is None else time.monotonic() + within
        (length,) = _LENGTH.unpack(self._receive(_LENGTH.size, end))
        return self._receive(length, end)

    def has_message(self) -> bool:
        """Whether something has come that was not received yet."""
        return bool(select.select([self._end], [], [], 0)[0])

    def fileno(self) -> int:
        """Return the descriptor, to wait for messages on several lines."""
        return self._end.fileno()

    def close(self) -> None:
        """Hang up."""
        self._end.close()

    def _send(self, data: bytes, end: float | None) -> None:
        try:
            self._end.settimeout(_left(end))
            self._end.sendall(data)
        except OSError as error:
            raise HungUpError(str(error)) from None

    def _receive(self, length: int, end: float | None) -> bytes:
        data = bytearray()
        while len(data) < length:
            try:
                self._end.settimeout(_left(end))
                piece = self._end.recv(min(length - len(data), _PIECE))
            except OSError as error:
                raise HungUpError(str(error)) from None
            if not piece:
                raise HungUpError("closed")
            data += piece
        return bytes(data)


def _left(end: float | None) -> float | None:
    if end is None:
        return None
    left = end - time.monotonic()
    if left <= 0:
        raise HungUpError("timed out")
    return left
