"""The socket at which a task answers its peers, and how to ask another."""

import contextlib
import hmac
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from muster.runtime.comm.stream import receive_json, send_json

Request = dict[str, Any]
Handler = Callable[[socket.socket, Request], None]
"""Answers a request on its connection, which is closed afterwards."""

ASKING = 10.0
"""Seconds for a peer to send its request of a few hundred bytes."""
LOOK = 0.005
"""Seconds between questions to a busy peer."""


class PeerServer:
    """Listens for peers; each request is handled in its own thread."""

    def __init__(self, host: str, token: str) -> None:
        self._token = token
        self._handlers: dict[str, Handler] = {}
        self._socket = socket.create_server((host, 0), backlog=128)
        self.address = f"{host}:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="muster-peers", daemon=True)

    def on(self, kind: str, handler: Handler) -> None:
        """Set the handler of a kind of request."""
        self._handlers[kind] = handler

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening; later requests are refused."""
        # shutdown() wakes a thread in accept(), close() does not.
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
            if not isinstance(request, dict):
                return
            token = str(request.get("token", ""))
            if not hmac.compare_digest(token.encode(), self._token.encode()):
                return
            handler = self._handlers.get(str(request.get("kind")))
            if handler is not None:
                handler(connection, request)


def prepare(connection: socket.socket, timeout: float | None) -> None:
    """Disable Nagle's algorithm; set the timeout for silence."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(timeout)


def connect(address: str, request: Request, token: str, timeout: float) -> socket.socket:
    """Open a connection and send a request; the caller reads the answer."""
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
    """Send a request, return the answer; `OSError` if none comes in time."""
    with connect(address, request, token, timeout) as connection:
        return dict(receive_json(connection))


def await_peers(addresses: Iterable[str], kind: str, goal: int, token: str, patience: float) -> None:
    """Ask peers until each has answered with at least a number, or is gone, or patience ends (s)."""
    until = time.monotonic() + patience
    for address in addresses:
        with contextlib.suppress(OSError, ValueError):
            while time.monotonic() < until and ask(address, {"kind": kind}, token, 1.0)[kind] < goal:
                time.sleep(LOOK)
