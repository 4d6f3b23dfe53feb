"""Executors without processes: one that carries everything out at once, one that refuses everything.

A task does what the first word of its command says (`PROGRAMS`); others live until they are ended.
"""

import signal
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import PurePosixPath

from muster.model.event import NodeLost
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Report
from muster.wire.visits.visits import Visit, refuse

FATAL = (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP)
PROGRAMS = ("exit", "print", "live", "stubborn", "missing")
"""exit CODE, print LINE, live, live and ignore SIGTERM, a command that is not there."""


def refused_visit() -> socket.socket:
    """A visit to a task that has no process."""
    ours, theirs = socket.socketpair()
    with theirs:
        refuse(theirs, "the task is not running")
    return ours


@dataclass(slots=True)
class Process:
    """A task that was ordered."""

    order: TaskOrder
    started: TaskStarted | None
    exited: TaskExited | None = None
    signals: list[int] = field(default_factory=list)


class Machine:
    """What outlives a driver: the tasks and their logs."""

    def __init__(self, clock: Callable[[], float] = lambda: 0.0) -> None:
        self.clock = clock
        self.processes: dict[TaskId, Process] = {}
        self.logs: dict[str, bytes] = {}
        self.executors: list[FakeExecutor] = []
        self._pids = count(1000)

    def begin(self, order: TaskOrder) -> Process:
        """Run a task, once."""
        known = self.processes.get(order.id)
        if known is not None:
            return known
        if order.argv[0] == "missing":
            process = Process(order, None)
        else:
            process = Process(order, TaskStarted(order.id, self.clock(), next(self._pids)))
        self.processes[order.id] = process
        self.logs.setdefault(order.log, b"")
        return process

    def say(self, task: TaskId, text: str) -> None:
        """Print something."""
        self.logs[self.processes[task].order.log] += text.encode()

    def finish(
        self, task: TaskId, code: int | None = 0, number: int | None = None, error: str = ""
    ) -> None:
        """End a task, and tell whoever watches it."""
        process = self.processes[task]
        if process.exited is None:
            begun = process.started is not None
            process.exited = TaskExited(task, self.clock(), code, number, error=error, begun=begun)
            for executor in self.executors:
                if task in executor.watched:
                    executor.report(process.exited)

    def signal(self, task: TaskId, number: int) -> None:
        """Send a signal."""
        process = self.processes.get(task)
        if process is None or process.exited is not None:
            return
        process.signals.append(number)
        deaf = process.order.argv[0] == "stubborn" and number != signal.SIGKILL
        if number in FATAL and not deaf:
            self.finish(task, None, number)

    def lose(self, node: str) -> None:
        """A node and all tasks on it are gone."""
        for executor in self.executors:
            executor.report(NodeLost(node, self.clock()))
        for task, process in list(self.processes.items()):
            if process.order.node == node:
                self.finish(task, None, None, f"node {node} is lost")


class FakeExecutor:
    """Runs tasks on a machine that is not there."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.watched: set[TaskId] = set()
        self._reports: list[Report] = []
        self._wake: Callable[[], None] = lambda: None
        machine.executors.append(self)

    def start(self, order: TaskOrder) -> None:
        if order.id in self.watched:
            return
        new = order.id not in self.machine.processes
        process = self.machine.begin(order)
        self._watch(process)
        if new:
            self._play(order)

    def signal(self, task: TaskId, number: int) -> None:
        self.machine.signal(task, number)

    def attach(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            process = self.machine.processes.get(task)
            if process is None:
                now = self.machine.clock()
                self.report(TaskExited(task, now, error="it was never ordered", begun=False))
            else:
                self._watch(process)

    def collect(self) -> Sequence[Report]:
        reports, self._reports = self._reports, []
        return reports

    def listen(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._reports:
            wake()

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        if ".." in PurePosixPath(log).parts or log not in self.machine.logs:
            raise LookupError(log)
        data = self.machine.logs[log]
        begin = min(max(offset if offset >= 0 else len(data) + offset, 0), len(data))
        part = data[begin : begin + size]
        return LogPiece(part, begin, begin + len(part))

    def visit(self, task: TaskId, node: str, visit: Visit) -> socket.socket:
        return refused_visit()

    def prune(self, older_than: float) -> int:
        return 0

    def close(self) -> None:
        self.machine.executors.remove(self)

    def report(self, report: Report) -> None:
        """Tell the driver."""
        self._reports.append(report)
        self._wake()

    def _watch(self, process: Process) -> None:
        self.watched.add(process.order.id)
        if process.exited is not None:
            self.report(process.exited)
        elif process.started is not None:
            self.report(process.started)

    def _play(self, order: TaskOrder) -> None:
        word, rest = order.argv[0], order.argv[1:]
        if word == "missing":
            self.machine.finish(order.id, 127, None, "no such command: missing")
        elif word == "exit":
            self.machine.finish(order.id, int(rest[0]))
        elif word == "print":
            self.machine.say(order.id, f"{rest[0]}\n")
            self.machine.finish(order.id)
        elif word == "stubborn":
            self.machine.say(order.id, "ready\n")


class RefusingExecutor:
    """Starts nothing."""

    def __init__(self) -> None:
        self._reports: list[Report] = []
        self._wake: Callable[[], None] = lambda: None

    def start(self, order: TaskOrder) -> None:
        self._refuse(order.id)

    def signal(self, task: TaskId, number: int) -> None:
        pass

    def attach(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            self._refuse(task)

    def collect(self) -> Sequence[Report]:
        reports, self._reports = self._reports, []
        return reports

    def listen(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        if self._reports:
            wake()

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        raise LookupError(log)

    def visit(self, task: TaskId, node: str, visit: Visit) -> socket.socket:
        return refused_visit()

    def prune(self, older_than: float) -> int:
        return 0

    def close(self) -> None:
        pass

    def _refuse(self, task: TaskId) -> None:
        self._reports.append(TaskExited(task, 0.0, error="no room on any node", begun=False))
        self._wake()
