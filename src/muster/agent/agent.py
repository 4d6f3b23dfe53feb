"""The agent of a node, put together: it dials its daemon, obeys, reports, and feeds logs.

Its tasks survive it, and it survives the daemon: without a connection it goes on watching, and keeps
trying. One thread with an event loop; the executor has a thread of its own.
"""

import asyncio
import contextlib
import itertools
import logging
import random
import secrets
import signal
import ssl
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import muster
from muster.agent.node.departing import Departure, read_notice
from muster.agent.node.health import HealthProbe
from muster.agent.node.machine import interface_of
from muster.agent.node.offer import Offered
from muster.agent.options import AgentError, AgentOptions
from muster.agent.talk.courier import Courier
from muster.agent.talk.link import Connection, dial
from muster.agent.talk.told_once import ToldOnce
from muster.agent.tasks.fence import Fence
from muster.agent.tasks.orders import OrderDesk
from muster.agent.tasks.packs import PackCache
from muster.agent.tasks.visits import AgentVisits
from muster.agent.trust.identity import AgentFolder
from muster.agent.trust.renewal import Renewal
from muster.executors.local import LocalExecutor
from muster.executors.local.cgroups import find_groups
from muster.executors.local.shim import uptime
from muster.executors.packs import PACKS, PackFolder
from muster.executors.transit import offer_fields
from muster.model.offer import NodeOffer
from muster.wire.agents.agent_messages import (
    AgentAlive,
    AgentHello,
    AgentRefused,
    AttachTasks,
    DaemonAlive,
    FromAgent,
    LogStored,
    OpenVisit,
    PackPart,
    PruneTasks,
    Renewed,
    ReportStored,
    Retire,
    RunTask,
    SendSignal,
    ToAgent,
    Welcome,
)
from muster.wire.seldom import shortened
from muster.wire.tasks.codec import BadMessageError

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""s between two attempts to connect: doubled each time, and drawn, so that agents do not all come at
once."""
TRIES = 4
"""Attempts in the time after which the daemon would give the node up, at least."""
ANSWER_TIMEOUT = 10.0
"""s for the daemon to answer the greeting."""
WATCH_TICK = 0.5
"""s between two checks of leases and departures."""
HEALTH_EVERY = 30.0
"""s between two measurements of the node's health."""
NOTICES = (signal.SIGUSR1, signal.SIGTERM)
"""Signals by which an engine tells that it takes the node back."""

_log = logging.getLogger("muster.agent")


class UnfitDaemonError(Exception):
    """The daemon will not have this agent, or is an older one than the agent has obeyed."""


class Agent:
    """Runs until it is told to end; `run` returns why."""

    def __init__(self, options: AgentOptions, folder: AgentFolder, offered: Offered) -> None:
        self._options, self._folder, self._offer = options, folder, offered.offer
        self._run, self._began = secrets.token_hex(8), uptime()
        groups = find_groups(folder.path)
        if groups.caveat:
            _log.warning(groups.caveat)
        self._executor = LocalExecutor(folder.path, uptime, groups=groups, heard=folder.heard)
        self._courier = Courier(self._executor)
        self._fence, self._renewal = Fence(folder.heard), Renewal(folder, options.node)
        self._probe = HealthProbe(folder.path, offered.names)
        self._packs = PackCache(PackFolder(folder.path / PACKS))
        self._visits = AgentVisits(self._executor, folder)
        self._orders = OrderDesk(
            options.node,
            folder,
            self._executor,
            self._courier.table,
            _log.warning,
            offered.names,
            packs=self._packs,
            sees=self._sees_daemons_files,
        )
        self._beats: dict[int, float] = {}
        """When each beat of this connection that was not answered was sent."""
        self._connection: Connection | None = None
        self._patience = 0.0
        """s of silence after which the last daemon gives the node up."""
        self._departure: Departure | None = None
        self._retired = ""
        self._told = ToldOnce()
        self._ended = asyncio.Event()
        self._why = ""
        self.code = 0
        """Of the process: 0 if nobody wants the node, else another agent should follow."""
        self._health: dict[str, Any] = {}
        self._told_health = False
        self._share = ""
        """The daemon's file that tells whether both see the same file system."""

    async def run(self) -> str:
        """Serve daemons until the end; return why it came."""
        self._loop = loop = asyncio.get_running_loop()
        self._executor.prepare()
        self._courier.adopt()
        self._executor.listen(partial(_wake, loop, self._courier.collect))
        self._follow_signals(loop)
        parts = (self._serve_for_ever(), self._watch_for_ever(), self._measure_for_ever())
        work = [asyncio.create_task(each) for each in parts]
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
            await self._visits.close()
            self._executor.close()
            self._probe.close()
            self._fence.close()
        return self._why

    def end(self, why: str, code: int = 0) -> None:
        """End the agent; its tasks keep running."""
        self._why, self.code = why, code
        self._ended.set()

    def depart(self, within: float, why: str) -> None:
        """Tell the daemon that the node will be gone, and keep running."""
        departure = Departure(uptime() + within, why)
        if self._departure is None or departure.at < self._departure.at:
            _log.warning("the node will be gone within %.0f s: %s", within, why)
            self._departure = departure
            self._send(departure.message())

    def _follow_signals(self, loop: asyncio.AbstractEventLoop) -> None:
        grace = self._options.grace
        loop.add_signal_handler(signal.SIGINT, self.end, "interrupted", _killed(signal.SIGINT))
        loop.add_signal_handler(signal.SIGUSR1, self._take_notice)
        if grace is None:
            loop.add_signal_handler(signal.SIGTERM, self.end, "stopped", _killed(signal.SIGTERM))
        else:
            loop.add_signal_handler(
                signal.SIGTERM, self.depart, grace, "its engine takes it back (SIGTERM)"
            )
        # What came while the agent was starting comes now.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, NOTICES)

    def _take_notice(self) -> None:
        self.depart(*read_notice(self._folder.path, self._options.grace or 0.0))

    # --- connections ---

    async def _serve_for_ever(self) -> None:
        pauses = _pauses()
        for address in itertools.cycle(self._options.daemons):
            try:
                connection = await dial(address, self._folder.context())
            except OSError as problem:
                self._tell(logging.INFO, f"cannot connect to {address}: {_words(problem)}")
            else:
                if await self._serve(connection, address):
                    pauses = _pauses(self._patience / TRIES)
            await asyncio.sleep(next(pauses))

    async def _serve(self, connection: Connection, address: str) -> bool:
        """Serve one connection to its end; return whether the daemon was one to serve."""
        try:
            welcome = await self._greet(connection)
        except (OSError, UnfitDaemonError) as problem:
            self._tell(logging.WARNING, f"{address}: {_words(problem)}")
            connection.close()
            return False
        self._told.forget()
        _log.info("connected to %s (epoch %d)", address, welcome.epoch)
        self._begin(connection, welcome)
        self._visits.address = address
        parts = (
            self._listen(connection, welcome),
            self._beat(connection, welcome),
            self._courier.feed(),
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
            self._courier.pause()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            connection.close()
        return True

    def _tell(self, level: int, text: str) -> None:
        """Log why there is no connection, once: the agent tries every few s, perhaps for hours."""
        if self._told.is_news(text):
            _log.log(level, "%s", text)

    async def _greet(self, connection: Connection) -> Welcome:
        sent = uptime()
        connection.send(
            AgentHello(
                self._options.node,
                self._run,
                self._orders.epoch,
                offer_fields(self._placed(connection)),
                tuple(str(task) for task in self._courier.table.living()),
                muster.__version__,
                visits=True,
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
        self._patience = welcome.lost_after
        self._beats.clear()
        self._told_health = False
        self._share = welcome.share
        self._packs.connected()
        self._ask_for_packs()
        if self._departure is not None:
            connection.send(self._departure.message())
        self._courier.begin(connection, welcome)

    async def _listen(self, connection: Connection, welcome: Welcome) -> None:
        while True:
            self._hear(await connection.receive(welcome.lost_after))

    def _hear(self, message: ToAgent) -> None:
        match message:
            case DaemonAlive():
                self._hear_beat(message)
            case RunTask() | SendSignal() | AttachTasks():
                self._obey(message)
            case OpenVisit() if self._orders.is_current(message.epoch, "a visit"):
                self._visits.open(message)
            case ReportStored(seq=seq):
                self._courier.report_stored(seq)
            case LogStored():
                self._courier.log_stored(message)
            case Renewed():
                self._renewal.renewed(message)
                # Shown at once: until then the daemon must take the old one, too.
                raise ConnectionError("the certificate was renewed: connecting with it")
            case PackPart():
                self._take_part(message)
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
            self._loop.run_in_executor(None, self._executor.prune, time.time() - message.age)

    def _hear_beat(self, message: DaemonAlive) -> None:
        if not self._orders.is_current(message.epoch, "a beat"):
            raise UnfitDaemonError("this daemon was replaced by another one")
        for beat in [each for each in self._beats if each <= message.beat]:
            self._fence.answered(self._beats.pop(beat))
        if self._renewal.is_due(told=message.renew):
            self._loop.run_in_executor(None, self._renew)

    def _obey(self, message: RunTask | SendSignal | AttachTasks) -> None:
        try:
            self._orders.obey(message)
        except BadMessageError as problem:
            raise ConnectionError(f"not an order: {problem}") from None
        self._courier.follow()
        self._ask_for_packs()

    def _take_part(self, message: PackPart) -> None:
        for order in self._packs.take(message):
            self._executor.start(order)
        self._ask_for_packs()

    def _ask_for_packs(self) -> None:
        if self._connection is not None and (needs := self._packs.unasked()):
            self._connection.send(*needs)

    def _sees_daemons_files(self) -> bool:
        """Whether the daemon's file system is here, too."""
        path, _, content = self._share.partition("\n")
        return not path or _reads(path, content)

    def _renew(self) -> None:
        """Ask for a new certificate; in a thread, since making a key takes a moment."""
        try:
            request = self._renewal.ask()
        except (AgentError, OSError, ValueError) as problem:
            _log.error("the certificate cannot be renewed: %s", problem)
            return
        _wake(self._loop, partial(self._send, request))

    def _send(self, message: FromAgent) -> None:
        if self._connection is not None:
            self._connection.send(message)

    async def _beat(self, connection: Connection, welcome: Welcome) -> None:
        for beat in itertools.count(1):
            self._beats[beat] = uptime()
            connection.send(AgentAlive(self._news_of_health(), beat))
            await asyncio.sleep(welcome.beat)

    def _news_of_health(self) -> dict[str, Any]:
        """Return what was measured, once on each connection and once more after each measurement."""
        if self._told_health:
            return {}
        self._told_health = True
        shares = {"shares": self._sees_daemons_files()} if self._share else {}
        return self._health | shares

    # --- what needs no daemon ---

    async def _measure_for_ever(self) -> None:
        while True:
            with contextlib.suppress(OSError):
                self._health = await asyncio.to_thread(self._probe.measure)
                self._told_health = False
            await asyncio.sleep(HEALTH_EVERY)

    async def _watch_for_ever(self) -> None:
        while True:
            await asyncio.sleep(WATCH_TICK)
            for task, lease in self._courier.table.leased():
                if self._fence.lapsed(lease):
                    # Its shim does so as well, unless that is dead.
                    self._executor.signal(task, signal.SIGKILL)
            if self._courier.idle and (why := self._unwanted()):
                self.end(why)

    def _unwanted(self) -> str:
        """Return why nobody needs this agent; empty: somebody may."""
        if self._retired:
            return f"retired: {self._retired}"
        away = self._options.away
        if away is not None and self._fence.silence(self._began) > away:
            return f"no daemon for {away:.0f} s, and no task"
        return ""


def _killed(number: int) -> int:
    """Return the exit code of a process that a signal ended, as shells write it."""
    return 128 + number


def _wake(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with contextlib.suppress(RuntimeError):  # the agent has ended
        loop.call_soon_threadsafe(call)


def _pauses(longest: float = LONGEST_PAUSE) -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield random.uniform(0.5, 1.0) * pause
        pause = min(2 * pause, longest, LONGEST_PAUSE)


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
