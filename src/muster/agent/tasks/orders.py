"""Obeys the daemon: orders become calls of the local executor, unless the daemon was replaced."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from muster.agent.tasks.own_folder import JOBS, moved
from muster.agent.tasks.packs import PackCache
from muster.agent.tasks.task_table import TaskTable
from muster.agent.trust.identity import AgentFolder
from muster.executors.local import LocalExecutor
from muster.executors.transit import order_of, task_of
from muster.model.task import TaskOrder
from muster.wire.agents.agent_messages import AttachTasks, RunTask, SendSignal
from muster.wire.seldom import SeldomNotes

TaskMessage = RunTask | SendSignal | AttachTasks

VISIBLE = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
"""Variables with the devices of a task, by their numbers on the node."""


class OrderDesk:
    """Carries out orders of daemons of the highest epoch so far."""

    def __init__(
        self,
        node: str,
        folder: AgentFolder,
        executor: LocalExecutor,
        table: TaskTable,
        note: Callable[[str], None],
        devices: Sequence[str] | None = None,
        *,
        packs: PackCache,
        sees: Callable[[], bool],
    ) -> None:
        """`devices`: how the node's own tools call each device that was offered; None: 0, 1, ...
        `sees`: whether the daemon's file system is here, too."""
        self._packs, self._sees = packs, sees
        self._node, self._folder, self._executor, self._table = node, folder, executor, table
        self._devices = devices
        self._note = SeldomNotes(note)
        self.epoch = folder.epoch

    def is_current(self, epoch: int, what: str) -> bool:
        """Whether to obey a daemon of this epoch; from now on older ones are refused."""
        if epoch < self.epoch:
            self._note(f"refused {what} of a daemon that was replaced (epoch {epoch} < {self.epoch})")
            return False
        if epoch > self.epoch:
            self._folder.epoch = self.epoch = epoch
        return True

    def obey(self, message: TaskMessage) -> None:
        """Carry out an order; `BadMessageError` if it is none."""
        if not self.is_current(message.epoch, type(message).__name__):
            return
        match message:
            case RunTask():
                order = self._suited(order_of(message.task, self._node, message.order))
                self._table.add(order.id, order.log, order.lease)
                if self._packs.holds(order):
                    return
                self._executor.start(order)
                if self._executor.has_ended(order.id):
                    self._executor.attach([order.id])  # a new daemon that does not know how
            case SendSignal():
                task = task_of(message.task)
                if (held := self._packs.release(task)) is not None:
                    self._executor.start(held)  # without its folder it ends at once
                self._executor.signal(task, message.number)
            case AttachTasks():
                tasks = [task_of(text) for text in message.tasks]
                for task in tasks:
                    self._packs.release(task)  # it was never started, and the daemon hears so
                    self._table.add(task, self._executor.log_of(task))
                self._executor.attach(tasks)

    def _suited(self, order: TaskOrder) -> TaskOrder:
        """Return an order in terms of this machine."""
        if os.geteuid():  # only root runs tasks as others; the offer says so
            order = replace(order, user="")
        if not order.user and not self._sees():
            order = moved(order, self._folder.path / JOBS)
        if self._devices is None:
            return order
        return replace(order, environ=translated(order.environ, self._devices))


def translated(environ: Mapping[str, str], devices: Sequence[str]) -> dict[str, str]:
    """Return an environment with the node's own names of its devices, for an agent that has some."""
    return {
        name: _translated(value, devices) if name in VISIBLE else value
        for name, value in environ.items()
    }


def _translated(value: str, devices: Sequence[str]) -> str:
    numbers = value.split(",")
    if not all(each.isdecimal() and int(each) < len(devices) for each in numbers):
        return value  # none, or what the user has set
    return ",".join(devices[int(each)] for each in numbers)
