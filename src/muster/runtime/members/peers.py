"""A task's post: the small socket at which its peers ask it things, and how to ask at another's."""

import contextlib
import hmac
import socket
import threading
from collections.abc import Callable
from typing import Any

from muster.runtime.comm.stream import receive_json, send_json

Request = dict[str, Any]
Handler = Callable[[socket.socket, Request], None]
"""Answers a request on its connection, which is closed when it returns."""

ASKING = 10.0
"""Seconds in which a peer must have said what it wants: a request is a few hundred bytes."""


class PeerServer:
    """Listens on an address of its own; every request runs its handler in a thread of its own."""

    def __init__(self, host: str, token: str) -> None:
        self._token = token
        self._handlers: dict[str, Handler] = {}
        self._socket = socket.create_server((host, 0), backlog=128)
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="muster-post", daemon=True)

    def on(self, kind: str, handler: Handler) -> None:
        """What to do with requests of a kind."""
        self._handlers[kind] = handler

    def start(self) -> None:
        """Begin to listen."""
        self._thread.start()

    def close(self) -> None:
        """Stop listening: whoever asks from now on is refused."""
        # A thread that waits in accept() is freed by shutdown, not by close.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(
                target=self._answer, args=(connection,), name="muster-answer", daemon=True
            ).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            prepare(connection, ASKING)
            request = receive_json(connection)
            if not isinstance(request, dict) or not self._knows(request):
                return
            handler = self._handlers.get(str(request.get("kind")))
            if handler is not None:
                handler(connection, request)

    def _knows(self, request: Request) -> bool:
        token = str(request.get("token", ""))
        return hmac.compare_digest(token.encode(), self._token.encode())


def prepare(connection: socket.socket, timeout: float | None) -> None:
    """Small messages leave at once, and a silent peer is an error after so many seconds."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(timeout)


def connect(address: str, request: Request, token: str, timeout: float) -> socket.socket:
    """Open a connection to a post and say what is wanted; the answer is the caller's to read."""
    host, _, port = address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout)
    try:
        prepare(connection, timeout)
        send_json(connection, {**request, "token": token})
    except OSError:
        connection.close()
        raise
    return connection


def ask(address: str, request: Request, token: str, timeout: float) -> Request:
    """One question, one answer; `OSError` if nobody answers in time."""
    with connect(address, request, token, timeout) as connection:
        return dict(receive_json(connection))
