"""The fleet: which task is on which node, what its agent was told and has said. One thread alone."""

import base64
import binascii
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import structlog

from muster.executors.fleet.log_store import LogStore
from muster.executors.fleet.nodes import Call, Effect, FleetNode, KillTask, NodeStanding, Reaction
from muster.executors.fleet.reports import read_offer, read_report
from muster.executors.health import read_health
from muster.executors.transit import order_fields, task_of
from muster.files.errors import InputError
from muster.model.cluster import Node, NodeState
from muster.model.offer import NodeOffer
from muster.model.task import LEASE, TaskExited, TaskId, TaskOrder, TaskStarted
from muster.model.topology import ConfigurationSet
from muster.ports import NodeDeparts, NodeGone, ProviderNews, Report
from muster.wire.agents.agent_messages import (
    AGENT_VERSION,
    AgentAlive,
    AgentHello,
    AgentRefused,
    AgentReport,
    AttachTasks,
    DaemonAlive,
    Departing,
    FromAgent,
    LogPart,
    LogStored,
    PruneTasks,
    ReportStored,
    Retire,
    RunTask,
    SendSignal,
    ToAgent,
    Welcome,
)
from muster.wire.api.records import NodeHealth
from muster.wire.tasks.codec import BadMessageError

log = structlog.get_logger()

ENDING = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT)
"""Signals that are repeated on the next connection: they may have been lost with the last one."""
BEATS = 6
"""Beats in the time after which a silent node is lost."""
LONGEST_BEAT = 5.0
"""s: 250 messages a second from 1,250 agents."""
KILL_MARGIN = 15.0
"""s after the end of a lease by which its task is surely dead."""
TASKS_AT_ONCE = 1000
"""Tasks of one `AttachTasks`."""

Classify = Callable[[NodeOffer], tuple[Node, ConfigurationSet]]


class AgentLine(Protocol):
    """A connection to an agent that has proved whose it is."""

    node: str

    def send(self, *messages: ToAgent) -> None:
        """Send messages; no effect if it has ended."""
        ...

    def end(self) -> None:
        """Close it once what was sent has gone out."""
        ...


@dataclass(slots=True)
class _Track:
    """A task that was ordered and has not ended."""

    node: str
    at: float
    """Nothing of it happened before."""
    log: str = ""
    order: RunTask | None = None
    """Until its agent has reported on it."""
    due: int = 1
    """Answers that the driver waits for."""
    signals: list[int] = field(default_factory=list)
    """For when its agent is back."""
    ending: int = 0
    """The last signal that ends it."""
    lease: float = 0.0
    """s after which its node kills it without word from here; 0: never."""


class Fleet:
    """Routes orders to agents, and tells what became of them and of the nodes.

    `clock`: s since 1970; `epoch`: of this daemon; `tell`: gets the reports.
    """

    def __init__(
        self,
        logs: LogStore,
        classify: Classify,
        epoch: int,
        tell: Callable[[Report], None],
        *,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        lost_after: float = 30.0,
        share: str = "",
        release: str = "",
    ) -> None:
        self._logs, self._classify, self._epoch, self._tell = logs, classify, epoch, tell
        self._clock, self._monotonic = clock, monotonic
        self.lost_after, self.beat = lost_after, min(lost_after / BEATS, LONGEST_BEAT)
        self._share, self._release = share, release
        self.nodes: dict[str, FleetNode] = {}
        self.lines: dict[str, AgentLine] = {}
        self.health: dict[str, tuple[float, NodeHealth]] = {}
        """What each agent last said of its node's health, and when (monotonic)."""
        self.blind: set[str] = set()
        """Nodes whose agents last said that they do not see the daemon's files."""
        self.open_to_visits: set[str] = set()
        """Nodes whose agents last said that they take visits."""
        self._tracks: dict[TaskId, _Track] = {}
        self._over: set[TaskId] = set()
        """Ended tasks: ordered again, they do not run again."""
        self._reported: dict[str, tuple[str, int]] = {}
        """Of each node: its agent's run, and the last report of it."""
        self._withheld: dict[TaskId, tuple[float, TaskExited]] = {}
        """Tasks of lost nodes that run at most once, until their leases are over (monotonic)."""
        self._attached = False
        """Whether all tasks of earlier daemons are known: others are killed from then on."""

    # --- the driver's side ---

    def expect(self, nodes: Iterable[Node]) -> None:
        """Know the nodes of the journal; their agents have not called yet."""
        now = self._monotonic()
        for node in nodes:
            if node.offer is not None and node.name not in self.nodes:
                lost = node.state is NodeState.LOST
                standing = NodeStanding.LOST if lost else NodeStanding.EXPECTED
                self.nodes[node.name] = FleetNode(node.name, standing, node, heard=now)

    def start(self, order: TaskOrder) -> None:
        """Order a task; its agent gets the order now or when it is back."""
        if order.id in self._tracks or order.id in self._over:
            return
        node = self.nodes.get(order.node)
        try:
            if node is None or not node.is_in:
                state = "is lost" if node else "has not joined"
                raise LookupError(f"node {order.node} {state}")
            self._logs.begin(order.log, order.node)
        except (LookupError, OSError) as problem:
            self._tell(TaskExited(order.id, self._clock(), error=str(problem), begun=False))
            return
        line = self.lines.get(order.node)
        run = RunTask(self._epoch, str(order.id), order_fields(order))
        self._tracks[order.id] = _Track(order.node, self._clock(), order.log, run, lease=order.lease)
        self.nodes[order.node] = node.ordered(order.id, sent=line is not None)
        if line is not None:
            line.send(run)

    def signal(self, task: TaskId, number: int) -> None:
        """Send a signal, now or when the agent is back."""
        track = self._tracks.get(task)
        if track is None:
            return
        if number in ENDING:
            track.ending = number
        line = self.lines.get(track.node)
        if line is not None:
            line.send(SendSignal(self._epoch, str(task), number))
        elif number not in ENDING:
            track.signals.append(number)

    def attach(self, tasks: Mapping[TaskId, str]) -> None:
        """Find out what became of tasks of an earlier daemon, each on its node."""
        for task, name in tasks.items():
            track = self._tracks.get(task)
            if track is not None:
                track.due += 1
                self._ask(name, [task])
                continue
            self._over.discard(task)
            node = self.nodes.get(name)
            if node is None or not node.is_in:
                state = "is lost" if node else "has left"
                exited = TaskExited(task, self._clock(), error=f"node {name} {state}")
                if node is None:
                    self._give_up(exited)
                else:  # others were given up with their node: this one runs at most once
                    self._withhold(exited, self._monotonic() + LEASE)
                continue
            self._tracks[task] = _Track(name, 0.0, self._logs.find(task))
            self.nodes[name] = node.attached(frozenset([task]))
            self._ask(name, [task])
        self._attached = True
        for node in self.nodes.values():
            for task in node.doomed:
                self._carry_out(node.name, KillTask(task))

    def prune(self, older_than: float) -> int:
        """Delete old logs here, and files of old tasks on the nodes."""
        age = max(0.0, self._clock() - older_than)
        for line in self.lines.values():
            line.send(PruneTasks(self._epoch, age))
        return self._logs.prune(older_than, {task.number for task in self._tracks})

    # --- the agents' side ---

    def called(self, line: AgentLine, hello: AgentHello) -> bool:
        """An agent says hello; return whether it may stay."""
        try:
            call = self._call(line.node, hello)
        except (BadMessageError, InputError) as problem:
            return self._refuse(line, str(problem), final=False)
        if why := self._mismatch(line.node, hello):
            return self._refuse(line, why, final=hello.version != AGENT_VERSION)
        now = self._monotonic()
        known = self.nodes.get(line.node)
        if known is None or known.standing is NodeStanding.LEFT:
            known = FleetNode(line.node, NodeStanding.LOST)
        if why := known.refusal(call, now, 2 * self.beat):
            return self._refuse(line, why, final=False)
        earlier = self.lines.get(line.node)
        self.lines[line.node] = line
        if earlier is not None:
            earlier.end()
        (self.open_to_visits.add if hello.visits else self.open_to_visits.discard)(line.node)
        line.send(self._welcome(line.node, hello.run))
        self._react(known.called(call, self._clock(), now))
        self._repeat(line, call.living)
        log.info("agent connected", node=line.node, standing=self.nodes[line.node].standing.value)
        return True

    def heard(self, line: AgentLine, message: FromAgent) -> None:
        """Handle a message of an agent that may stay."""
        if self.lines.get(line.node) is not line:
            return
        self.nodes[line.node] = self.nodes[line.node].spoke(self._monotonic())
        match message:
            case AgentAlive():
                if message.health:
                    self._hear_health(line.node, read_health(message.health))
                line.send(DaemonAlive(self._epoch, message.beat))
            case AgentReport():
                self._hear_report(line, message)
            case LogPart():
                line.send(self._store(line.node, message))
            case Departing():
                node = self.nodes[line.node]
                self._react(node.departs(self._clock(), message.within, message.why))
            case _:
                log.warning(
                    "unexpected message of an agent", node=line.node, kind=type(message).__name__
                )

    def ships(self, name: str, digest: str) -> bool:
        """Whether a node has an order that ships this folder: agents get no others."""
        waiting = (track.order for track in self._tracks.values() if track.node == name)
        return any(order is not None and order.order["ship"] == digest for order in waiting)

    def cut(self, line: AgentLine) -> None:
        """A connection has ended."""
        if self.lines.get(line.node) is line:
            del self.lines[line.node]
            log.info("agent disconnected", node=line.node)
            self._react(self.nodes[line.node].cut(self._clock()))

    def pass_time(self) -> None:
        """Give up what has been silent for too long; end agents of departing nodes that are empty."""
        now = self._monotonic()
        for until, exited in list(self._withheld.values()):
            if now > until:
                self._give_up(exited)
        for node in list(self.nodes.values()):
            after = node.passed(self._clock(), now, self.beat, self.lost_after)
            if after[0] is not node:
                self._react(after)
            if after[0].is_empty and (line := self.lines.get(node.name)) is not None:
                line.send(Retire(self._epoch, after[0].departing))

    # --- the engine's side ---

    def hear_provider(self, news: ProviderNews) -> None:
        """An engine tells of a node."""
        node = self.nodes.get(news.node)
        if node is None:
            return
        match news:
            case NodeDeparts():
                self._react(node.departs(self._clock(), news.within, news.why))
            case NodeGone():
                self._react(node.gone(self._clock(), news.why))
                for _, exited in list(self._withheld.values()):
                    track = self._tracks.get(exited.task)
                    if track is not None and track.node == news.node:
                        self._give_up(exited)

    def revoke(self, name: str) -> None:
        """An administrator no longer trusts a node: nothing it says counts from now on."""
        node, line = self.nodes.get(name), self.lines.pop(name, None)
        if line is not None:
            line.send(AgentRefused(f"node {name} was revoked"))
            line.end()
        if node is not None:
            self._react(node.lost(self._clock(), "its certificate was revoked"))

    # ---

    def _call(self, name: str, hello: AgentHello) -> Call:
        offer = read_offer(name, hello.offer)
        node, configuration = self._classify(offer)
        return Call(hello.run, node, configuration, frozenset(map(task_of, hello.tasks)))

    def _mismatch(self, name: str, hello: AgentHello) -> str:
        """Return why daemon and agent do not fit; empty: they do."""
        if hello.version != AGENT_VERSION:
            return (
                f"agent of {hello.node!r:.80} speaks protocol version {hello.version} "
                f"(Muster {hello.release or 'unknown'!s:.40}), the daemon version {AGENT_VERSION} "
                f"(Muster {self._release}); install the same release on both"
            )
        if hello.node != name:
            return f"the certificate is of node {name}, not of {hello.node!r:.80}"
        if hello.epoch > self._epoch:
            return f"a newer daemon is in charge: its epoch is {hello.epoch}, this one's {self._epoch}"
        return ""

    def _refuse(self, line: AgentLine, why: str, *, final: bool) -> bool:
        log.warning("agent refused", node=line.node, why=why)
        line.send(AgentRefused(why[:2000], final))
        line.end()
        return False

    def _welcome(self, name: str, run: str) -> Welcome:
        known = self._reported.get(name)
        if known is None or known[0] != run:
            known = self._reported[name] = run, 0
        mine = [track.log for track in self._tracks.values() if track.node == name and track.log]
        logs = {each: self._logs.have(each) for each in mine if self._logs.source(each) == name}
        return Welcome(self._epoch, self.beat, self.lost_after, self._share, known[1], logs)

    def _repeat(self, line: AgentLine, living: frozenset[TaskId]) -> None:
        """Send again what may not have arrived, and ask for tasks that the agent does not have."""
        asked = []
        for task in sorted(self.nodes[line.node].tasks):
            track = self._tracks[task]
            if track.order is not None:
                self.nodes[line.node] = self.nodes[line.node].ordered(task, sent=True)
                line.send(track.order)
            elif track.due or task not in living:
                asked.append(task)
            ending = [track.ending] if track.ending else []
            for number in (*track.signals, *ending):
                line.send(SendSignal(self._epoch, str(task), number))
            track.signals.clear()
        self._ask(line.node, asked)

    def _ask(self, name: str, tasks: list[TaskId]) -> None:
        line = self.lines.get(name)
        for place in range(0, len(tasks) if line else 0, TASKS_AT_ONCE):
            assert line is not None
            some = tasks[place : place + TASKS_AT_ONCE]
            line.send(AttachTasks(self._epoch, tuple(map(str, some))))

    def _hear_health(self, name: str, health: NodeHealth) -> None:
        self.health[name] = self._monotonic(), health
        (self.blind.add if health.shares is False else self.blind.discard)(name)

    def _hear_report(self, line: AgentLine, message: AgentReport) -> None:
        run, last = self._reported[line.node]
        line.send(ReportStored(max(message.seq, last)))
        if message.seq <= last:
            return
        self._reported[line.node] = run, message.seq
        try:
            task = task_of(message.task)
            track = self._tracks.get(task)
            if track is not None and track.node != line.node:
                raise BadMessageError(f"a report of {task}, which is on another node")
            report = read_report(message, self._clock(), track.at if track else 0.0)
        except BadMessageError as problem:
            log.warning("bad report of an agent", node=line.node, problem=str(problem))
            return
        if isinstance(report, TaskExited):
            self._hear_exit(line.node, report)
        elif track is not None and track.due:
            self._hear_start(track, report)

    def _hear_start(self, track: _Track, report: TaskStarted) -> None:
        track.due -= 1
        track.order = None
        self._tell(report)

    def _hear_exit(self, name: str, report: TaskExited) -> None:
        withheld = self._withheld.pop(report.task, None)
        if self._tracks.pop(report.task, None) is not None or withheld is not None:
            self._over.add(report.task)
            self._tell(report)
        self._react(self.nodes[name].ended(report.task, self._clock()))

    def _store(self, name: str, part: LogPart) -> LogStored:
        """Keep a part of a log, if it is of a task of the node."""
        try:
            if self._logs.source(part.log) != name:
                return LogStored(part.log, 0, full=True)
            data = base64.b64decode(part.data, validate=True)
            return LogStored(part.log, self._logs.append(part.log, part.offset, data))
        except (LookupError, OSError, binascii.Error) as problem:
            log.warning("a log cannot be kept", node=name, log=part.log[:200], problem=str(problem))
            return LogStored(part.log, 0, full=True)

    def _react(self, reaction: Reaction) -> None:
        node, effects = reaction
        self.nodes[node.name] = node
        if node.standing is NodeStanding.LEFT:
            del self.nodes[node.name]
            self.health.pop(node.name, None)
            self.blind.discard(node.name)
        for effect in effects:
            self._carry_out(node.name, effect)

    def _carry_out(self, name: str, effect: Effect) -> None:
        if isinstance(effect, KillTask):
            line = self.lines.get(name)
            if line is not None and self._attached:  # before, it may be an earlier daemon's
                line.send(SendSignal(self._epoch, str(effect.task), signal.SIGKILL))
            return
        if isinstance(effect, TaskExited):
            track, node = self._tracks.get(effect.task), self.nodes.get(name)
            if track is not None and track.lease and effect.begun and node is not None:
                self._withhold(effect, node.heard + track.lease)
            else:
                self._give_up(effect)
        else:
            self._tell(effect)

    def _withhold(self, exited: TaskExited, lapse: float) -> None:
        """Keep the end of a task to ourselves until its node must have killed it."""
        self._withheld[exited.task] = lapse + KILL_MARGIN, exited

    def _give_up(self, exited: TaskExited) -> None:
        self._withheld.pop(exited.task, None)
        self._tracks.pop(exited.task, None)
        self._over.add(exited.task)
        self._tell(replace(exited, at=self._clock()))
