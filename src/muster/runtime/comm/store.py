"""A small store at which the members of a formation meet, served by the `PeerServer` of the first.

torch's TCPStore looks up the host name behind each address; with a slow name service, members would
stall for seconds in the middle of a recovery. This one needs no names.
"""

import socket
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from torch import distributed

from muster.runtime.comm.stream import receive_json, send_json
from muster.runtime.members.peers import PeerServer, Request, connect


@dataclass(slots=True)
class _Meeting:
    """One formation's values, in hex, and the connections of its members."""

    values: dict[str, str] = field(default_factory=dict)
    connections: set[socket.socket] = field(default_factory=set)
    present: set[socket.socket] = field(default_factory=set)
    """Open as long as a member is there, if members watch each other; one that ends ends all."""


class Stores:
    """Serves a store for each formation that meets at this task, by name ("3-...": formation 3)."""

    def __init__(self, server: PeerServer) -> None:
        self._changed = threading.Condition()
        self._meetings: dict[str, _Meeting] = {}
        server.on("store", self._serve)
        server.on("presence", self._attend)

    def forget(self, formation: int) -> None:
        """Drop the stores of this formation and earlier ones; members may still meet at later ones."""
        with self._changed:
            for name in [name for name in self._meetings if int(name.partition("-")[0]) <= formation]:
                meeting = self._meetings.pop(name)
                _end(meeting.connections | meeting.present)

    def _serve(self, connection: socket.socket, request: Request) -> None:
        with self._changed:
            meeting = self._meetings.setdefault(str(request["name"]), _Meeting())
            meeting.connections.add(connection)
        connection.settimeout(None)
        try:
            with suppress(KeyError, TypeError):  # not a request
                while True:
                    send_json(connection, self._answer(meeting.values, receive_json(connection)))
        finally:
            with self._changed:
                meeting.connections.discard(connection)

    def _attend(self, connection: socket.socket, request: Request) -> None:
        """Keep a member's connection open; when it ends, so do those of all others."""
        with self._changed:
            meeting = self._meetings.setdefault(str(request["name"]), _Meeting())
            meeting.present.add(connection)
        connection.settimeout(None)
        try:
            send_json(connection, {"here": True})
            connection.recv(1)
        finally:
            with self._changed:
                meeting.present.discard(connection)
                _end(meeting.present)

    def _answer(self, values: dict[str, str], request: Request) -> Request:
        op, keys, seconds = request["op"], request["keys"], float(request["seconds"])
        with self._changed:
            if op in ("get", "wait"):
                self._changed.wait_for(lambda: all(key in values for key in keys), seconds)
                missing = [key for key in keys if key not in values]
                if missing:
                    return {"error": f"no {', '.join(missing)} within {seconds:g} s"}
            answer: Any = None
            if op == "get":
                answer = values[keys[0]]
            elif op == "check":
                answer = all(key in values for key in keys)
            elif op == "delete":
                answer = values.pop(keys[0], None) is not None
            elif op == "add":
                answer = int(bytes.fromhex(values.get(keys[0], b"0".hex()))) + request["amount"]
                values[keys[0]] = str(answer).encode().hex()
            elif op == "set":
                values[keys[0]] = request["value"]
            self._changed.notify_all()
            return {"answer": answer}


class StoreClient(distributed.Store):
    """What torch needs of a store; connects when it is first used, and again after `close`."""

    def __init__(self, address: str, token: str, name: str, deadline: float) -> None:
        """`address`: of the peer that serves it; `name`: of the formation."""
        super().__init__()
        self.name, self.deadline = name, deadline
        self._address, self._token = address, token
        self._lock = threading.Lock()
        self._connection: socket.socket | None = None

    def set(self, key: str, value: str | bytes) -> None:
        data = value.encode() if isinstance(value, str) else bytes(value)
        self._ask("set", [key], value=data.hex())

    def get(self, key: str) -> bytes:
        """Wait for a key's value."""
        return bytes.fromhex(str(self._ask("get", [key])))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Wait until all keys have values."""
        self._ask("wait", list(keys), self.deadline if timeout is None else timeout.total_seconds())

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all keys have values."""
        return bool(self._ask("check", list(keys)))

    def add(self, key: str, amount: int) -> int:
        """Add to a counter; return the new value."""
        return int(self._ask("add", [key], amount=amount))

    def delete_key(self, key: str) -> bool:
        """Delete a key; return whether there was one."""
        return bool(self._ask("delete", [key]))

    def attend(self) -> socket.socket:
        """Return a connection that ends when any member ends its own, with its process or before."""
        try:
            hello = {"kind": "presence", "name": self.name}
            connection = connect(self._address, hello, self._token, self.deadline)
            receive_json(connection)
        except (OSError, ValueError) as problem:
            raise RuntimeError(f"store at {self._address}: {problem}") from problem
        return connection

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _ask(self, op: str, keys: list[str], seconds: float | None = None, **more: object) -> Any:
        """Send a request; `RuntimeError` without an answer, as from torch's own stores."""
        limit = self.deadline if seconds is None else seconds
        with self._lock:
            try:
                if self._connection is None:
                    hello = {"kind": "store", "name": self.name}
                    self._connection = connect(self._address, hello, self._token, self.deadline)
                # A second longer than the server waits: its answer names the missing keys.
                self._connection.settimeout(limit + 1)
                send_json(self._connection, {"op": op, "keys": keys, "seconds": limit, **more})
                answer = receive_json(self._connection)
            except (OSError, ValueError) as problem:
                self._drop()
                raise RuntimeError(f"store at {self._address}: {problem}") from problem
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer["answer"]

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _end(connections: Iterable[socket.socket]) -> None:
    """Wake the threads that wait on these; each closes its own."""
    for connection in connections:
        with suppress(OSError):
            connection.shutdown(socket.SHUT_RDWR)
