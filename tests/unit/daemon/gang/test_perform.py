"""Commands of gangs, carried out."""

import asyncio
import signal

from muster.daemon.gang.commands import LaunchTask, SetTimer, SignalTask, TellTask
from muster.daemon.gang.events import KillLeft, Terminate, Timeout
from muster.daemon.gang.perform import Performer
from muster.model.job import Role
from muster.model.task import TaskId, TaskOrder
from muster.wire.tasks.messages import CheckpointNow, Message
from tests.contract.fake_executor import FakeExecutor, Machine

TASK, ENDED = TaskId(1, 1, Role.WORKER, 0), TaskId(1, 1, Role.WORKER, 1)


class Tasks:
    """Hears what tasks are told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, Message]] = []

    def tell(self, job: int, task: str, message: Message) -> None:
        self.told.append((job, task, message))


def order_of(job: int, task: TaskId) -> TaskOrder | None:
    if task == ENDED:
        return None
    return TaskOrder(task, "n0", (0,), ("live",), {}, "/", f"{job}/1/{task.name}.log")


def test_tasks_are_launched_signalled_and_told() -> None:
    machine, tasks = Machine(), Tasks()
    performer = Performer(FakeExecutor(machine), tasks, order_of, lambda job, timeout: None)
    performer.perform(1, LaunchTask(TASK))
    performer.perform(1, LaunchTask(TASK))
    assert list(machine.processes) == [TASK], "ordered twice it runs once"
    performer.perform(1, SignalTask(TASK, signal.SIGUSR1))
    assert machine.processes[TASK].signals == [signal.SIGUSR1]
    performer.perform(1, TellTask("worker-0", CheckpointNow()))
    assert tasks.told == [(1, "worker-0", CheckpointNow())]


def test_a_task_that_has_ended_meanwhile_is_not_started() -> None:
    machine = Machine()
    performer = Performer(FakeExecutor(machine), Tasks(), order_of, lambda job, timeout: None)
    performer.perform(1, LaunchTask(ENDED))
    assert not machine.processes


def test_timeouts_come_back_with_their_job_the_shorter_first() -> None:
    async def scenario() -> None:
        over: asyncio.Queue[tuple[int, Timeout]] = asyncio.Queue()

        def time_out(job: int, timeout: Timeout) -> None:
            over.put_nowait((job, timeout))

        performer = Performer(FakeExecutor(Machine()), Tasks(), order_of, time_out)
        performer.perform(1, SetTimer(0.02, KillLeft(2)))
        performer.perform(2, SetTimer(0.0, Terminate(1)))
        assert over.empty()
        assert await over.get() == (2, Terminate(1))
        assert await over.get() == (1, KillLeft(2))

    asyncio.run(scenario())
