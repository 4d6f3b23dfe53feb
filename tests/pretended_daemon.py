"""A daemon's agent port with real TLS and certificates, whose answers the test gives."""

import base64
import contextlib
import json
import os
import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from muster.agent.trust.identity import AgentFolder
from muster.executors.fleet.authority import new_request
from muster.executors.fleet.identities import Identities
from muster.executors.transit import order_fields
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from muster.store.store import Store
from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import (
    AgentAlive,
    AgentHello,
    AgentReport,
    DaemonAlive,
    FromAgent,
    Join,
    LogPart,
    LogStored,
    ReportStored,
    RunTask,
    ToAgent,
    Welcome,
)

LIMIT = 30.0
"""s after which what has not come never will."""

Kind = TypeVar("Kind", bound=FromAgent)


class PretendedCall:
    """One connection of an agent, and all that was heard on it."""

    def __init__(self, sock: ssl.SSLSocket, limit: float) -> None:
        self._socket, self._buffer, self._limit = sock, bytearray(), limit
        self._first: list[FromAgent] = []
        self._passed: list[FromAgent] = []
        self.heard: list[FromAgent] = []
        self.epoch = 1

    def listen(self) -> bool:
        """Wait for the first message, to be heard again; False if the connection ends before it."""
        first = self.next()
        if first is not None:
            self._first = [first]
        return first is not None

    def say(self, *messages: ToAgent) -> None:
        self._socket.sendall(b"".join(TO_AGENT.encode(message) for message in messages))

    def next(self, limit: float | None = None) -> FromAgent | None:
        """Return the next message; None at the end of the connection."""
        if self._first:
            return self._first.pop()
        self._socket.settimeout(limit or self._limit)
        while b"\n" not in self._buffer:
            try:
                data = self._socket.recv(65536)
            except TimeoutError:
                raise AssertionError(f"nothing came; heard {self.heard}") from None
            except OSError:
                return None
            if not data:
                return None
            self._buffer += data
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        message = FROM_AGENT.decode(line)
        self.heard.append(message)
        return message

    def hear(self, kind: type[Kind], like: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """Return the first message of a kind that was not returned yet, answering beats meanwhile."""
        for each in self._passed:
            if isinstance(each, kind) and like(each):
                self._passed.remove(each)
                return each
        end = time.monotonic() + self._limit
        while time.monotonic() < end:
            message = self.next()
            assert message is not None, f"the agent has closed the connection; heard {self.heard}"
            if isinstance(message, AgentAlive):
                self.say(DaemonAlive(self.epoch, message.beat))
            if isinstance(message, kind) and like(message):
                return message
            self._passed.append(message)
        raise AssertionError(f"no {kind.__name__}; heard {self.heard}")

    def next_but_beats(self) -> FromAgent | None:
        """Return the next message other than a beat; None at the end of the connection."""
        while isinstance(message := self.next(), AgentAlive):
            continue
        return message

    def welcome(self, epoch: int = 1, **values: Any) -> AgentHello:
        """Hear the greeting and answer it."""
        hello = self.hear(AgentHello)
        self.epoch = epoch
        self.say(Welcome(epoch, values.pop("beat", 0.2), values.pop("lost_after", LIMIT), **values))
        return hello

    def report(self, what: str, task: TaskId | None = None) -> AgentReport:
        """Hear the next report of a kind, and store it."""
        found = self.hear(
            AgentReport, lambda each: each.what == what and task in (None, TaskId.parse(each.task))
        )
        self.say(ReportStored(found.seq))
        return found

    def store(self, part: LogPart) -> None:
        self.say(LogStored(part.log, part.offset + len(data_of(part))))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


class PretendedDaemon:
    """Listens on loopback; admits with real tokens and certificates."""

    def __init__(self, store: Store, limit: float = LIMIT) -> None:
        self._limit, self._store = limit, store
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.address = f"127.0.0.1:{self.port}"
        self.identities = Identities(self._store, ["localhost"], [self.address])
        self._calls: list[PretendedCall] = []

    def token(self, node: str | None = None) -> str:
        return str(self.identities.invite(node))

    def accept(self) -> PretendedCall:
        """Return the next connection that is more than a look at the certificate."""
        while True:
            ready, _, _ = select.select([self._listener], [], [], self._limit)
            assert ready, "no agent called"
            plain, _ = self._listener.accept()
            plain.settimeout(self._limit)
            try:
                sock = self.identities.context().wrap_socket(plain, server_side=True)
            except OSError:
                plain.close()
                continue
            call = PretendedCall(sock, self._limit)
            self._calls.append(call)
            if call.listen():
                return call
            call.close()  # it came for the authority's certificate

    def first_words(self) -> FromAgent | None:
        """Return the first message of the next connection; None if it ends without one."""
        plain, _ = self._listener.accept()
        with self.identities.context().wrap_socket(plain, server_side=True) as sock:
            return PretendedCall(sock, self._limit).next()

    def admit(self) -> Join:
        """Answer an agent that joins."""
        call = self.accept()
        join = call.hear(Join)
        call.say(self.identities.join(join.token, join.node, join.request, "127.0.0.1"))
        call.close()
        return join

    def close(self) -> None:
        for call in self._calls:
            call.close()
        self._listener.close()


class AgentProcess:
    """A real agent, with its folder."""

    def __init__(self, daemon: PretendedDaemon, folder: Path, node: str = "n0") -> None:
        self.daemon, self.folder, self.node = daemon, folder, node
        self.output = folder.with_name(f"{folder.name}.out")
        self._running: subprocess.Popen[bytes] | None = None

    def start(self, *arguments: str, devices: int = 2) -> "AgentProcess":
        with self.output.open("ab") as output:
            self._running = subprocess.Popen(
                [
                    *(sys.executable, "-m", "muster.agent", "--node", self.node),
                    *("--folder", str(self.folder), "--devices", str(devices), "--virtual"),
                    *arguments,
                ],
                stdout=output,
                stderr=output,
            )
        return self

    def start_joined(self, *arguments: str) -> "AgentProcess":
        """Start it with an identity, as it has after it joined."""
        key, request = new_request(self.node)
        token = self.daemon.identities.invite(self.node)
        admitted = self.daemon.identities.join(token.secret, self.node, request, "127.0.0.1")
        folder = AgentFolder(self.folder)
        folder.keep_identity(admitted.certificate, admitted.authority, key)
        folder.daemons = token.addresses
        return self.start(*arguments)

    @property
    def pid(self) -> int:
        assert self._running is not None
        return self._running.pid

    def words(self) -> str:
        return self.output.read_text()

    def wait(self) -> int:
        assert self._running is not None
        return self._running.wait(LIMIT)

    def kill(self) -> None:
        """Kill it without a word."""
        assert self._running is not None
        self._running.kill()
        self._running.wait(LIMIT)

    def close(self) -> None:
        if self._running is not None and self._running.poll() is None:
            self.kill()
        for path in self.folder.glob("tasks/*/*/*/begun.json"):
            if not (path.parent / "ended.json").exists():
                with contextlib.suppress(OSError, ValueError):
                    os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)


def order(daemon_folder: Path, script: str, index: int = 0, **values: Any) -> RunTask:
    """Return an order to run a shell script, of the first epoch."""
    task = TaskId(7, 1, Role.WORKER, index)
    made = TaskOrder(
        task,
        "n0",
        (index,),
        ("/bin/sh", "-c", script),
        {"PATH": "/usr/local/bin:/usr/bin:/bin"},
        str(daemon_folder),
        f"7/1/{task.name}.log",
        **values,
    )
    return RunTask(1, str(task), order_fields(made))


def data_of(part: LogPart) -> bytes:
    return base64.b64decode(part.data)


def until(done: Callable[[], bool], limit: float = LIMIT) -> None:
    """Wait until it is so."""
    end = time.monotonic() + limit
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)
