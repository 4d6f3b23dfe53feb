"""The agent of a node, put together: it dials its daemon, obeys, reports, and feeds logs.

Its tasks survive it, and it survives the daemon: without a connection it goes on watching, and keeps
trying. One thread with an event loop; the executor has a thread of its own.
"""

import asyncio
import contextlib
import itertools
import logging
import os
import random
import secrets
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import muster
from muster.agent.departing import Departure, read_notice
from muster.agent.fence import Fence
from muster.agent.health import HealthProbe
from muster.agent.identity import AgentFolder
from muster.agent.link import Connection, dial
from muster.agent.log_feed import LogFeed
from muster.agent.machine import interface_of
from muster.agent.offer import Offered
from muster.agent.options import AgentError, AgentOptions
from muster.agent.orders import OrderDesk
from muster.agent.outbox import Outbox
from muster.agent.packs import PackCache
from muster.agent.task_table import TaskTable
from muster.executors.local import LocalExecutor
from muster.executors.local.cgroups import find_groups
from muster.executors.local.shim import uptime
from muster.executors.packs import PACKS, PackFolder
from muster.executors.transit import offer_fields
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskStarted
from muster.wire.agent_messages import (
    AgentAlive,
    AgentHello,
    AgentRefused,
    AttachTasks,
    DaemonAlive,
    LogStored,
    PackPart,
    PruneTasks,
    ReportStored,
    Retire,
    RunTask,
    SendSignal,
    ToAgent,
    Welcome,
)
from muster.wire.codec import BadMessageError
from muster.wire.seldom import shortened

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""s between two attempts to connect: doubled each time, and drawn, so that agents do not all come at
once."""
ANSWER_TIMEOUT = 10.0
"""s for the daemon to answer the greeting."""
LOG_TICK = 0.2
"""s between two looks at the logs."""
HOLD = 2.0
"""s that the report of an end waits for the last words of its log to be sent before it."""
WATCH_TICK = 0.5
"""s between two checks of leases and departures."""
HEALTH_EVERY = 15.0
"""s between two measurements of the node's health."""
BACKLOG = 2**20
"""Bytes not taken by the network above which no logs are sent: beats and reports are more urgent."""

_log = logging.getLogger("muster.agent")


class UnfitDaemonError(Exception):
    """The daemon will not have this agent, or is an older one than the agent has obeyed."""


class Agent:
    """Runs until it is told to end; `run` returns why."""

    def __init__(self, options: AgentOptions, folder: AgentFolder, offered: Offered) -> None:
        self._options, self._folder, self._offer = options, folder, offered.offer
        self._run = secrets.token_hex(8)
        groups = find_groups(folder.path)
        if groups.caveat:
            _log.warning(groups.caveat)
        self._executor = LocalExecutor(
            folder.path, uptime, groups=groups, umask=_umask(), heard=folder.heard
        )
        self._table, self._outbox = TaskTable(), Outbox()
        self._fence = Fence(folder.heard)
        self._feed = LogFeed(self._executor.read_log, uptime())
        self._health = HealthProbe(folder.path, offered.names)
        self._packs = PackCache(PackFolder(folder.path / PACKS))
        self._orders = OrderDesk(
            options.node,
            folder,
            self._executor,
            self._table,
            _log.warning,
            offered.names,
            packs=self._packs,
            sees=self._sees_daemons_files,
        )
        self._held: list[tuple[float, TaskExited, str]] = []
        """Ends whose logs are not sent yet: until when they wait, and the log."""
        self._beats: dict[int, float] = {}
        """When each beat of this connection that was not answered was sent."""
        self._connection: Connection | None = None
        self._departure: Departure | None = None
        self._retired = ""
        self._ended = asyncio.Event()
        self._why = ""
        self._pump = asyncio.Event()
        self._measured = float("-inf")
        self._shares = ""

    async def run(self) -> str:
        """Serve daemons until the end; return why it came."""
        loop = asyncio.get_running_loop()
        self._adopt()
        self._executor.listen(partial(_wake, loop, self._collect))
        self._follow_signals(loop)
        work = [asyncio.create_task(each) for each in (self._serve_for_ever(), self._watch_for_ever())]
        end = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait([*work, end], return_when=asyncio.FIRST_COMPLETED)
            for task in work:
                if task.done():
                    task.result()
        finally:
            end.cancel()
            for task in work:
                task.cancel()
            await asyncio.gather(*work, end, return_exceptions=True)
            self._executor.close()
            self._health.close()
            self._fence.close()
        return self._why

    def end(self, why: str) -> None:
        """End the agent; its tasks keep running."""
        self._why = why
        self._ended.set()

    def depart(self, within: float, why: str) -> None:
        """Tell the daemon that the node will be gone, and keep running."""
        departure = Departure(uptime() + within, why)
        if self._departure is None or departure.at < self._departure.at:
            _log.warning("the node will be gone within %.0f s: %s", within, why)
            self._departure = departure
            if self._connection is not None:
                self._connection.send(self._departure.message())

    def _adopt(self) -> None:
        """Watch the tasks that an earlier agent has left."""
        found = list(self._executor.unsettled())
        for task, folder in found:
            self._table.add(task, folder.log(), folder.lease())
            self._feed.follow(folder.log(), uptime())
        self._executor.attach([task for task, _ in found])
        if found:
            _log.info("found %d tasks of an earlier agent", len(found))

    def _follow_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        grace = self._options.grace
        loop.add_signal_handler(signal.SIGINT, self.end, "interrupted")
        loop.add_signal_handler(signal.SIGUSR1, self._take_notice)
        if grace is None:
            loop.add_signal_handler(signal.SIGTERM, self.end, "stopped")
        else:
            loop.add_signal_handler(
                signal.SIGTERM, self.depart, grace, "its engine takes it back (SIGTERM)"
            )

    def _take_notice(self) -> None:
        self.depart(*read_notice(self._folder.path, self._options.grace or 0.0))

    # --- connections ---

    async def _serve_for_ever(self) -> None:
        pauses = _pauses()
        for address in itertools.cycle(self._options.daemons):
            try:
                connection = await dial(address, self._folder.context())
            except OSError as problem:
                _log.info("cannot connect to %s: %s", address, _words(problem))
            else:
                if await self._serve(connection, address):
                    pauses = _pauses()
            await asyncio.sleep(next(pauses))

    async def _serve(self, connection: Connection, address: str) -> bool:
        """Serve one connection to its end; return whether the daemon was one to serve."""
        try:
            welcome = await self._greet(connection)
        except (OSError, UnfitDaemonError) as problem:
            _log.warning("%s: %s", address, _words(problem))
            connection.close()
            return False
        _log.info("connected to %s (epoch %d)", address, welcome.epoch)
        self._begin(connection, welcome)
        parts = (
            self._listen(connection, welcome),
            self._beat(connection, welcome),
            self._feed_logs(connection),
        )
        tasks = [asyncio.create_task(part) for part in parts]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        except (OSError, UnfitDaemonError) as problem:
            _log.warning("disconnected from %s: %s", address, _words(problem))
        finally:
            self._connection = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            connection.close()
        return True

    async def _greet(self, connection: Connection) -> Welcome:
        sent = uptime()
        connection.send(
            AgentHello(
                self._options.node,
                self._run,
                self._orders.epoch,
                offer_fields(self._placed(connection)),
                tuple(str(task) for task in self._table.living()),
                muster.__version__,
            )
        )
        answer = await connection.receive(ANSWER_TIMEOUT)
        if isinstance(answer, AgentRefused):
            self._refused(answer)
        if not isinstance(answer, Welcome):
            raise UnfitDaemonError(f"answered the greeting with {type(answer).__name__}")
        if not self._orders.is_current(answer.epoch, "the welcome"):
            raise UnfitDaemonError("this daemon was replaced by another one")
        self._fence.answered(sent)
        return answer

    def _refused(self, answer: AgentRefused) -> None:
        why = shortened(answer.why)
        if answer.final:
            raise AgentError(f"the daemon refuses this agent: {why}")
        raise UnfitDaemonError(f"refused for now: {why}")

    def _placed(self, connection: Connection) -> NodeOffer:
        """Return the offer with the address at which others reach this node."""
        address = self._options.advertise or connection.own_address
        return replace(self._offer, address=address, interface=interface_of(address))

    def _begin(self, connection: Connection, welcome: Welcome) -> None:
        self._connection = connection
        self._beats.clear()
        self._measured = float("-inf")
        self._shares = welcome.share
        self._feed.connected(welcome.logs)
        self._packs.connected()
        self._ask_for_packs()
        if self._departure is not None:
            connection.send(self._departure.message())
        # The logs first: a report of an end is then not ahead of the last words.
        self._send_logs(connection)
        self._stored(self._outbox.connected(welcome.reported))
        self._flush()

    async def _listen(self, connection: Connection, welcome: Welcome) -> None:
        while True:
            self._hear(await connection.receive(welcome.lost_after))

    def _hear(self, message: ToAgent) -> None:
        match message:
            case DaemonAlive():
                if not self._orders.is_current(message.epoch, "a beat"):
                    raise UnfitDaemonError("this daemon was replaced by another one")
                self._answered(message.beat)
            case RunTask() | SendSignal() | AttachTasks():
                self._obey(message)
            case ReportStored(seq=seq):
                self._stored(self._outbox.stored(seq))
            case LogStored(log=log, offset=offset, full=full):
                self._feed.stored(log, offset, full)
                self._settle()
                self._pump.set()
            case PackPart():
                for order in self._packs.take(message):
                    self._executor.start(order)
                self._ask_for_packs()
            case PruneTasks() | Retire():
                self._tidy(message)
            case AgentRefused():
                self._refused(message)

    def _tidy(self, message: PruneTasks | Retire) -> None:
        if not self._orders.is_current(message.epoch, type(message).__name__):
            return
        if isinstance(message, Retire):
            self._retired = message.why or "no longer wanted"
        else:
            since = time.time() - message.age
            asyncio.get_running_loop().run_in_executor(None, self._executor.prune, since)

    def _obey(self, message: RunTask | SendSignal | AttachTasks) -> None:
        try:
            self._orders.obey(message)
        except BadMessageError as problem:
            raise ConnectionError(f"not an order: {problem}") from None
        if isinstance(message, RunTask | AttachTasks):
            for log in self._table.logs():
                self._feed.follow(log, uptime())
            self._ask_for_packs()

    def _ask_for_packs(self) -> None:
        if self._connection is not None and (needs := self._packs.unasked()):
            self._connection.send(*needs)

    def _sees_daemons_files(self) -> bool:
        """Whether the daemon's file system is here, too."""
        path, _, content = self._shares.partition("\n")
        return not path or _reads(path, content)

    def _answered(self, beat: int) -> None:
        for each in [each for each in self._beats if each <= beat]:
            self._fence.answered(self._beats.pop(each))

    async def _beat(self, connection: Connection, welcome: Welcome) -> None:
        for beat in itertools.count(1):
            self._beats[beat] = uptime()
            connection.send(AgentAlive(self._news_of_health(), beat))
            await asyncio.sleep(welcome.beat)

    def _news_of_health(self) -> dict[str, object]:
        if uptime() - self._measured < HEALTH_EVERY:
            return {}
        self._measured = uptime()
        found = self._health.measure()
        if self._shares:
            found["shares"] = self._sees_daemons_files()
        return found

    # --- reports and logs ---

    def _collect(self) -> None:
        """Take the executor's reports."""
        for report in self._executor.collect():
            if isinstance(report, TaskStarted):
                self._outbox.add(report)
            elif isinstance(report, TaskExited):
                log = self._table.ended(report.task)
                self._held.append((uptime() + HOLD, report, log))
        if self._connection is not None:
            self._send_logs(self._connection)
        self._flush()

    def _flush(self) -> None:
        """Send the reports, those of ends once their logs are on their way."""
        now, held = uptime(), self._held
        self._held = []
        for end in held:
            until, report, log = end
            if self._connection is None or now > until or self._feed.all_sent(log):
                self._outbox.add(report)
            else:
                self._held.append(end)
        if self._connection is not None and (messages := self._outbox.unsent()):
            self._connection.send(*messages)

    def _stored(self, reports: list[TaskStarted | TaskExited]) -> None:
        """The daemon has these reports."""
        for report in reports:
            if isinstance(report, TaskExited):
                self._table.told(report.task)
        self._settle()

    def _settle(self) -> None:
        """Forget tasks of which the daemon has the end and the log."""
        for task, log in self._table.told_with_logs():
            if self._feed.all_stored(log):
                self._executor.settle(task)
                self._table.remove(task)
                if not self._table.uses(log):
                    self._feed.forget(log)

    async def _feed_logs(self, connection: Connection) -> None:
        while True:
            self._send_logs(connection)
            self._flush()
            self._settle()
            self._pump.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOG_TICK):
                    await self._pump.wait()

    def _send_logs(self, connection: Connection) -> None:
        if connection.backlog < BACKLOG:
            for part in self._feed.parts(uptime()):
                connection.send(part)

    # --- what needs no daemon ---

    async def _watch_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WATCH_TICK)
            for task, lease in self._table.leased():
                if self._fence.lapsed(lease):
                    # Its shim does so as well, unless that is dead.
                    self._executor.signal(task, signal.SIGKILL)
            if self._is_done():
                self.end(f"retired: {self._retired}")

    def _is_done(self) -> bool:
        return bool(self._retired) and not (len(self._table) or len(self._outbox) or self._held)


def _wake(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the agent has ended
        loop.call_soon_threadsafe(call)


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0.5, 1.0) * pause
        pause = min(2 * pause, LONGEST_PAUSE)


def _umask() -> int:
    """Return this process's umask, which can only be read by setting it."""
    found = os.umask(0o077)
    os.umask(found)
    return found


def _reads(path: str, content: str) -> bool:
    """Whether a file of the daemon's is here, too."""
    try:
        with open(path, encoding="utf-8") as file:  # noqa: PTH123
            return file.read(len(content) + 1) == content
    except (OSError, ValueError):
        return False


def _words(problem: Exception) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return f"not a daemon of the authority that this agent has joined ({problem.verify_message})"
    if isinstance(problem, ssl.SSLError):
        return f"TLS: {problem.reason or problem}"
    return str(getattr(problem, "strerror", None) or problem or type(problem).__name__)
