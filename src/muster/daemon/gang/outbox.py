"""The hands of the gangs: what they note and order is gathered here, and goes through the door."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from muster.daemon.gang.hands import Task
from muster.daemon.loop.entry import Entry
from muster.model.task import Fact, TaskId, TaskOrder
from muster.ports import Clock, Executor
from muster.wire.messages import Message

TAIL = 4096
"""Bytes of a failed task's log that are kept with the failure: some 50 lines."""


class Says(Protocol):
    """Who speaks to tasks."""

    def tell(self, job: int, task: str, message: Message) -> None: ...


class Outbox:
    """Gathers facts and commands until they are taken."""

    def __init__(
        self,
        clock: Clock,
        executor: Executor,
        wires: Says,
        orders: Callable[[int, Task], TaskOrder],
        wake: Callable[[], None],
    ) -> None:
        """`orders` makes an order of a job's task; `wake` is called when a timer has done something."""
        self.clock, self.executor, self.wires = clock, executor, wires
        self.orders, self.wake = orders, wake
        self._entry = Entry()

    def __bool__(self) -> bool:
        return bool(self._entry.facts or self._entry.then)

    def take(self) -> Entry | None:
        """What was gathered since the last call; None if nothing."""
        if not self:
            return None
        entry, self._entry = self._entry, Entry()
        return entry

    def note(self, fact: Fact) -> None:
        """Gather a fact."""
        self._entry.facts.append(fact)

    def then(self, command: Callable[[], None]) -> None:
        """Gather a command."""
        self._entry.then.append(command)


class GangHands:
    """The hands of one job's gang."""

    def __init__(self, outbox: Outbox, number: int, name: str) -> None:
        self._outbox, self._number, self._name = outbox, number, name

    def now(self) -> float:
        """The time, in s."""
        return self._outbox.clock.now()

    def note(self, fact: Fact) -> None:
        """Journal a fact."""
        self._outbox.note(fact)

    def order(self, task: Task) -> None:
        """Start a task."""
        box = self._outbox
        box.then(lambda: box.executor.start(box.orders(self._number, task)))

    def signal(self, task: TaskId, number: int) -> None:
        """Signal a task and whatever it has started."""
        box = self._outbox
        box.then(lambda: box.executor.signal(task, number))

    def tell(self, task: str, message: Message) -> None:
        """Say something to a task of the job."""
        box = self._outbox
        box.then(lambda: box.wires.tell(self._number, task, message))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something when so much time has passed."""

        def passed() -> None:
            what()
            self._outbox.wake()

        asyncio.get_running_loop().call_later(seconds, passed)

    def tail(self, task: TaskId) -> str:
        """The last lines that a task has printed."""
        name = log_name(self._number, self._name, task)
        try:
            piece = self._outbox.executor.read_log(name, -TAIL, TAIL)
        except LookupError:
            return ""
        text = piece.data.decode(errors="replace").rstrip("\n")
        return text.partition("\n")[2] if piece.offset else text


def log_name(number: int, job: str, task: TaskId) -> str:
    """Where a task's output goes: `<job>/<generation>/<role>-<index>.log`."""
    return f"{number}-{job}/{task.generation}/{task.name}.log"
