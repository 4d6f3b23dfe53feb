"""A small store at which the members of a formation find each other.

torch's own TCPStore asks the name service for the name behind each address, and waits for its answer:
where the name service is slow, members would stand still for seconds, in the middle of a recovery.
This one asks nobody.
"""

import json
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from torch import distributed

PATIENCE = 60.0
"""Seconds that a request may wait for a key when it does not say how long."""


class StoreServer:
    """Serves a store on a free port of this host, as long as the object lives."""

    def __init__(self, host: str) -> None:
        listener = socket.create_server((host, 0), backlog=512)
        self.port: int = listener.getsockname()[1]
        shelf = _Shelf()
        _start(_accept, listener, shelf)
        self.close = weakref.finalize(self, _end, listener, shelf)
        """Ends it before; may be called twice."""


class StoreClient(distributed.Store):
    """What torch needs of a store; connects when it is first used, and again after `close`."""

    def __init__(self, address: tuple[str, int], deadline: float = PATIENCE) -> None:
        super().__init__()
        self._address, self._deadline = address, deadline
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None
        self._lines: Any = None

    def set(self, key: str, value: str | bytes) -> None:
        """Put a value under a key."""
        data = value.encode() if isinstance(value, str) else bytes(value)
        self._ask(op="set", keys=[key], value=data.hex())

    def get(self, key: str) -> bytes:
        """The value of a key, as soon as it has one."""
        return bytes.fromhex(str(self._ask(op="get", keys=[key])))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Until all these keys have values."""
        seconds = self._deadline if timeout is None else timeout.total_seconds()
        self._ask(op="wait", keys=list(keys), seconds=seconds)

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all these keys have values."""
        return bool(self._ask(op="check", keys=list(keys)))

    def add(self, key: str, amount: int) -> int:
        """Count a key up; the new value."""
        return int(self._ask(op="add", keys=[key], amount=amount))

    def delete_key(self, key: str) -> bool:
        """Forget a key; whether there was one."""
        return bool(self._ask(op="delete", keys=[key]))

    def close(self) -> None:
        """Give the connection back."""
        with self._lock:
            self._drop()

    def _ask(self, **request: object) -> Any:
        """One request and its answer; RuntimeError where none comes, as from torch's own stores."""
        request.setdefault("seconds", self._deadline)
        with self._lock:
            try:
                answer = self._exchange(request)
            except (OSError, ValueError) as problem:
                self._drop()
                raise RuntimeError(
                    f"store at {self._address[0]}:{self._address[1]}: {problem}"
                ) from problem
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer.get("answer")

    def _exchange(self, request: dict[str, object]) -> dict[str, Any]:
        if self._connection is None:
            self._connection = socket.create_connection(self._address, self._deadline)
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._lines = self._connection.makefile("rw", encoding="utf-8", newline="\n")
        # A second longer than the server waits for a key: its answer says which one.
        self._connection.settimeout(float(str(request["seconds"])) + 1)
        self._lines.write(json.dumps(request) + "\n")
        self._lines.flush()
        line = self._lines.readline()
        if not line:
            raise ConnectionError("connection closed")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _drop(self) -> None:
        connection, lines = self._connection, self._lines
        self._connection = self._lines = None
        if connection is not None:
            connection.close()
        if lines is not None:
            with suppress(OSError):  # what could not be sent is lost, as it should be
                lines.close()


class _Shelf:
    """The values, and the connections of those who ask for them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.values: dict[str, str] = {}
        self.connections: set[socket.socket] = set()

    def answer(self, op: str, keys: list[str], seconds: float, request: dict[str, Any]) -> Any:
        """What a request gets; TimeoutError where a key does not come."""
        with self.changed:
            if op in ("get", "wait"):
                self._wait(keys, seconds)
            return _OPERATIONS[op](self, keys, request)

    def _wait(self, keys: list[str], seconds: float) -> None:
        until = time.monotonic() + seconds
        while missing := [key for key in keys if key not in self.values]:
            if not self.changed.wait(max(0.0, until - time.monotonic())) and time.monotonic() >= until:
                raise TimeoutError(f"no {', '.join(missing)} within {seconds:g} s")

    def put(self, key: str, value: str) -> None:
        self.values[key] = value
        self.changed.notify_all()

    def count(self, key: str, amount: int) -> int:
        total = int(bytes.fromhex(self.values.get(key, b"0".hex()))) + amount
        self.put(key, str(total).encode().hex())
        return total


_OPERATIONS: dict[str, Callable[[_Shelf, list[str], dict[str, Any]], Any]] = {
    "set": lambda shelf, keys, request: shelf.put(keys[0], request["value"]),
    "get": lambda shelf, keys, _: shelf.values[keys[0]],
    "wait": lambda _shelf, _keys, _request: None,
    "check": lambda shelf, keys, _: all(key in shelf.values for key in keys),
    "add": lambda shelf, keys, request: shelf.count(keys[0], int(request["amount"])),
    "delete": lambda shelf, keys, _: shelf.values.pop(keys[0], None) is not None,
}


def _start(act: Callable[[socket.socket, _Shelf], None], where: socket.socket, shelf: _Shelf) -> None:
    threading.Thread(target=act, args=(where, shelf), name="store", daemon=True).start()


def _accept(listener: socket.socket, shelf: _Shelf) -> None:
    """Thread: a thread for each connection, until the listener is closed."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        shelf.connections.add(connection)
        _start(_serve, connection, shelf)


def _serve(connection: socket.socket, shelf: _Shelf) -> None:
    """Thread: answer one client until it goes; what is no request ends the connection."""
    try:
        with connection, connection.makefile("rw", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                lines.write(json.dumps(_answer(json.loads(line), shelf)) + "\n")
                lines.flush()
    except (OSError, ValueError, KeyError, TypeError, IndexError, AttributeError):
        pass
    finally:
        shelf.connections.discard(connection)


def _answer(request: dict[str, Any], shelf: _Shelf) -> dict[str, Any]:
    try:
        return {"answer": shelf.answer(request["op"], request["keys"], request["seconds"], request)}
    except TimeoutError as problem:
        return {"error": str(problem)}


def _end(listener: socket.socket, shelf: _Shelf) -> None:
    """Stop to listen, and end the clients' connections."""
    for each in (listener, *shelf.connections.copy()):
        try:
            each.shutdown(socket.SHUT_RDWR)
        except OSError:
            continue  # gone already
    listener.close()
