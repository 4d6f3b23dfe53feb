"""The executor of many machines: a thread that listens for agents and routes orders to them."""

import asyncio
import contextlib
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog

from muster.executors.fleet.fleet import Classify, Fleet
from muster.executors.fleet.identities import Identities
from muster.executors.fleet.listener import Listener
from muster.executors.fleet.log_store import LogStore
from muster.executors.fleet.packs import PackSource
from muster.executors.fleet.session import AgentSession
from muster.executors.fleet.visits import FleetVisits
from muster.executors.packs import PACKS, PackFolder
from muster.executors.private_folder import make_private
from muster.model.cluster import Node
from muster.model.task import LogPiece, TaskId, TaskOrder
from muster.ports import ProviderNews, Report
from muster.wire.api.records import NodeHealth
from muster.wire.visits.visits import Visit

log = structlog.get_logger()

LOOK = 0.5
"""s between two looks for silent agents."""
CLOSING = 3
"""Iterations of the event loop in which asyncio closes what was aborted: TLS, socket, stream."""
AGE_STEP = 5.0
"""s by which the age of a node's health may be off: all nodes are looked at every 2 s."""
ANSWER = 30.0
"""s for the fleet's thread to answer."""

UNKNOWN = NodeHealth()

T = TypeVar("T")


class _Shown(NamedTuple):
    """A node's health as it was heard, and as it was shown with its age."""

    now: float
    said: NodeHealth
    health: NodeHealth


class FleetExecutor:
    """Runs tasks on the nodes of agents that call, as `ports.Executor` says.

    It listens from the first `listen` on. `sock`: bound, for agents; `epoch`: of this daemon.
    """

    def __init__(
        self,
        folder: Path,
        sock: socket.socket,
        identities: Identities,
        classify: Classify,
        epoch: int,
        *,
        clock: Callable[[], float] = time.time,
        lost_after: float = 30.0,
        release: str = "",
    ) -> None:
        make_private(folder)
        self._logs = LogStore(folder / "logs")
        self._packs = PackSource(PackFolder(folder / PACKS))
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self._wake: Callable[[], None] = lambda: None
        self._fleet = Fleet(
            self._logs,
            classify,
            epoch,
            self._report,
            clock=clock,
            lost_after=lost_after,
            share=_share(folder),
            release=release,
        )
        self._visits = FleetVisits(self._fleet, epoch)
        self._sock, self._identities = sock, identities
        identities.revoked.append(lambda node: self._post(self._fleet.revoke, node))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name="muster-fleet", daemon=True)
        self._serving: asyncio.Task[None] | None = None
        self._closed = False
        self._shown: Mapping[str, _Shown] = {}
        self._thread.start()

    # --- ports.Executor ---

    def start(self, order: TaskOrder) -> None:
        self._post(self._fleet.start, order)

    def signal(self, task: TaskId, number: int) -> None:
        self._post(self._fleet.signal, task, number)

    def attach(self, tasks: Mapping[TaskId, str]) -> None:
        self._post(self._fleet.attach, dict(tasks))

    def collect(self) -> Sequence[Report]:
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def listen(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wake = wake
            if self._reports:
                self._post(wake)
        self._post(self._open)

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        return self._logs.read(log, offset, size)

    def visit(self, task: TaskId, node: str, visit: Visit) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._post(self._visits.open, task, node, visit, theirs)
        return ours

    def prune(self, older_than: float) -> int:
        return self._ask(self._fleet.prune, older_than)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._sock.close()

    # --- beside it ---

    def expect(self, nodes: Iterable[Node]) -> None:
        """Know the nodes of the journal, before `listen`; their agents will call."""
        self._post(self._fleet.expect, list(nodes))

    def hear_provider(self, news: ProviderNews) -> None:
        """An engine tells of a node; from any thread."""
        self._post(self._fleet.hear_provider, news)

    def connected(self) -> frozenset[str]:
        """Return the nodes whose agents are connected."""
        return frozenset(list(self._fleet.lines))

    def agents(self) -> dict[str, NodeHealth]:
        """Return the nodes whose agents are connected, and how they are (`ports.Agents`)."""
        now, heard, before = time.monotonic(), self._fleet.health, self._shown
        names = list(self._fleet.lines)
        self._shown = {name: _shown(heard.get(name), before.get(name), now) for name in names}
        return {name: shown.health for name, shown in self._shown.items()}

    def blind(self) -> tuple[str, ...]:
        """Return the nodes whose agents are connected and do not see this machine's files."""
        return tuple(sorted(name for name in list(self._fleet.blind) if name in self._fleet.lines))

    # ---

    def _report(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)
            wake = self._wake
        wake()

    def _post(self, call: Callable[..., object], *arguments: object) -> None:
        """Call something in the fleet's thread, after what was posted before."""
        if not self._closed:
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(partial(_attempt, call, *arguments))

    def _ask(self, call: Callable[..., T], *arguments: object) -> T:
        async def answer() -> T:
            return call(*arguments)

        return asyncio.run_coroutine_threadsafe(answer(), self._loop).result(ANSWER)

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            if self._serving is not None:
                self._serving.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    self._loop.run_until_complete(self._serving)
            for _ in range(CLOSING):
                self._loop.run_until_complete(asyncio.sleep(0))
        finally:
            self._loop.close()

    def _open(self) -> None:
        if self._serving is None:
            self._serving = self._loop.create_task(self._serve())

    async def _serve(self) -> None:
        listener = Listener(self._sock, self._identities.context(), self._receive)
        watch = asyncio.create_task(self._watch())
        try:
            await listener.run()
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _receive(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        proved: Callable[[], None],
        note: Callable[[str], None],
    ) -> None:
        fleet, who = self._fleet, self._identities
        packs, visits = self._packs, self._visits
        await AgentSession(reader, writer, fleet, who, proved, note, packs, visits).run()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(LOOK, self._fleet.beat))
            _attempt(self._fleet.pass_time)


def _shown(heard: tuple[float, NodeHealth] | None, before: _Shown | None, now: float) -> _Shown:
    """Return what was heard of a node with its age; what was shown just before, if that still holds."""
    at, said = heard or (now, UNKNOWN)
    if before is not None and before.said is said and now - before.now < AGE_STEP:
        return before
    return _Shown(now, said, replace(said, age=now - at))


def _attempt(call: Callable[..., object], *arguments: object) -> None:
    """Call something whose failure must not stop the others."""
    try:
        call(*arguments)
    except Exception:
        log.exception("the fleet failed", at=getattr(call, "__name__", str(call)))


def _share(folder: Path) -> str:
    """Write a file by which agents find out that they see this file system; return where and what."""
    path = folder / "shared"
    try:
        content = path.read_text(encoding="ascii")
    except OSError:
        content = secrets.token_hex(16)
        path.write_text(content, encoding="ascii")
    return f"{path}\n{content}"
