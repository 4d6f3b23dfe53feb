"""Carries out the commands of gangs, and logs them."""

import asyncio
from collections.abc import Callable
from typing import Protocol

import structlog

from muster.daemon.gang.commands import Command, LaunchTask, SetTimer, SignalTask, TellTask
from muster.daemon.gang.events import Timeout
from muster.model.task import TaskId, TaskOrder
from muster.ports import Executor
from muster.wire.tasks.messages import Message

log = structlog.get_logger()


class TellsTasks(Protocol):
    """Sends messages to tasks."""

    def tell(self, job: int, task: str, message: Message) -> None: ...


class Performer:
    """Passes commands on to the executor, the connections to tasks, and timers."""

    def __init__(
        self,
        executor: Executor,
        connections: TellsTasks,
        orders: Callable[[int, TaskId], TaskOrder | None],
        time_out: Callable[[int, Timeout], None],
    ) -> None:
        """`orders` makes the order for a task, None if it has ended; `time_out` receives timeouts."""
        self._executor, self._connections = executor, connections
        self._orders, self._time_out = orders, time_out

    def perform(self, job: int, command: Command) -> None:
        """Carry out one command of a job's gang."""
        match command:
            case LaunchTask():
                log.info("start task", task=str(command.task))
                order = self._orders(job, command.task)
                if order is not None:
                    self._executor.start(order)
            case SignalTask():
                log.info("signal task", task=str(command.task), signal=int(command.number))
                self._executor.signal(command.task, command.number)
            case TellTask():
                log.debug(
                    "tell task", job=job, task=command.task, message=type(command.message).__name__
                )
                self._connections.tell(job, command.task, command.message)
            case SetTimer():
                log.debug("set timer", job=job, seconds=command.seconds, timeout=str(command.timeout))
                loop = asyncio.get_running_loop()
                loop.call_later(command.seconds, self._time_out, job, command.timeout)
