"""The socket at which a task answers its peers, and how to ask another.

Before any request both ends prove that they know the job's token (`wire/tasks/job_proof.py`), in fixed
numbers of bytes: mark and nonce there, mark, nonce and proof back, proof there.
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from muster.runtime.comm.stream import receive_bytes, receive_json, send_bytes, send_json
from muster.wire.agents.join_token import joined_address, split_address
from muster.wire.seldom import SeldomNotes
from muster.wire.tasks.job_proof import CALLER, LISTENER, NONCE, PROOF, is_proof, new_nonce, proof_of
from muster.wire.tasks.messages import VERSION

Request = dict[str, Any]
Handler = Callable[[socket.socket, Request], None]
"""Answers a request on its connection, which is closed afterwards."""

ASKING = 10.0
"""Seconds for a peer to prove itself, and then to send its request."""
LOOK = 0.005
"""Seconds between questions to a busy peer."""
STRANGERS = 128
"""Connections without a proof at most, a thread each; the oldest gives way."""

_MARK = f"MUSTER{VERSION:02d}".encode()
_log = logging.getLogger("muster")


class PeerServer:
    """Listens for peers; each request is handled in its own thread."""

    def __init__(self, host: str, token: str) -> None:
        self._token = token
        self._handlers: dict[str, Handler] = {}
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, 0), family=family, backlog=128)
        self.address = joined_address(host, self._socket.getsockname()[1])
        self._thread = threading.Thread(target=self._accept, name="muster-peers", daemon=True)
        self._lock = threading.Lock()
        self._strangers: dict[socket.socket, None] = {}
        """Connections without a proof, oldest first."""
        self._note = SeldomNotes(_log.warning)

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
            self._receive_stranger(connection)
            threading.Thread(
                target=self._answer, args=(connection,), name="muster-answer", daemon=True
            ).start()

    def _receive_stranger(self, connection: socket.socket) -> None:
        """Give a connection a place, the oldest one's if there is no other."""
        with self._lock:
            self._strangers[connection] = None
            if len(self._strangers) > STRANGERS:
                oldest = next(iter(self._strangers))
                del self._strangers[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, ValueError), connection:
            if not self._is_known(connection):
                return
            prepare(connection, ASKING)
            request = receive_json(connection)
            kind = request.get("kind") if isinstance(request, dict) else None
            handler = self._handlers.get(str(kind))
            if handler is not None:
                handler(connection, request)

    def _is_known(self, connection: socket.socket) -> bool:
        """Whether the caller has proved that it belongs to the job."""
        proved = False
        try:
            prepare(connection, ASKING)
            proved = self._proved(connection)
        finally:
            with self._lock:
                self._strangers.pop(connection, None)
            if not proved:
                self._note(f"connection to {self.address} closed: not a task of this job")
        return proved

    def _proved(self, connection: socket.socket) -> bool:
        until = time.monotonic() + ASKING
        if receive_bytes(connection, len(_MARK), until) != _MARK:
            send_bytes(connection, _MARK)  # a task of another version can say so
            return False
        called, heard = receive_bytes(connection, NONCE, until), new_nonce()
        subject = f"peer {self.address}"
        mine = proof_of(self._token, LISTENER, called, heard, subject)
        send_bytes(connection, _MARK + heard + mine)
        theirs = receive_bytes(connection, PROOF, until)
        return is_proof(theirs, self._token, CALLER, called, heard, subject)


def prepare(connection: socket.socket, timeout: float | None) -> None:
    """Disable Nagle's algorithm; set the timeout for silence."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.settimeout(timeout)


def connect(address: str, request: Request, token: str, timeout: float) -> socket.socket:
    """Open a connection and send a request; the caller reads the answer.

    `ConnectionError` if whoever listens does not prove that it knows the token.
    """
    until = time.monotonic() + timeout
    connection = socket.create_connection(split_address(address), timeout)
    try:
        prepare(connection, timeout)
        _introduce(connection, address, token, until)
        prepare(connection, timeout)
        send_json(connection, request)
    except OSError:
        connection.close()
        raise
    return connection


def _introduce(connection: socket.socket, address: str, token: str, until: float) -> None:
    """Prove ourselves to a peer that has proved itself."""
    called, subject = new_nonce(), f"peer {address}"
    send_bytes(connection, _MARK + called)
    if receive_bytes(connection, len(_MARK), until) != _MARK:
        raise ConnectionError(f"{address} does not speak version {VERSION} of Muster's protocol")
    heard = receive_bytes(connection, NONCE, until)
    theirs = receive_bytes(connection, PROOF, until)
    if not is_proof(theirs, token, LISTENER, called, heard, subject):
        raise ConnectionError(f"{address} does not know this job's token")
    send_bytes(connection, proof_of(token, CALLER, called, heard, subject))


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
