"""What tasks say reaches gangs, beliefs, metrics and the journal; strangers are not heard."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

from muster.daemon.assembly import RunningDaemon
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.daemon.tasks.orders import Surroundings
from muster.daemon.tasks.task_messages import TaskMessages
from muster.model.event import Checkpointed
from muster.wire.tasks.messages import Changed, Opening, Saved, StepDone, Transferred
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, state_of, until


def play(tmp_path: Path, scenario: Callable[[RunningDaemon, TaskMessages], Awaitable[None]]) -> None:
    """A daemon with a running job `a` of one task, and somebody who hears for it."""

    async def played() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a"))
            await until(made, lambda: state_of(made, "a").phase == "running")
            around = Surroundings(tmp_path, "", JobSecrets("secret"))
            await scenario(made, TaskMessages(made.daemon, around))

    asyncio.run(played())


def opening(job: str = "a", task: str = "worker-0") -> Opening:
    return Opening(job, task, "00" * 32, "ann")


def metric(made: RunningDaemon, name: str) -> float:
    lines = made.daemon.metrics.text().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


def test_a_task_must_know_the_token_of_its_own_job(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, messages: TaskMessages) -> None:
        state = made.daemon.view.jobs[1]
        token = JobSecrets("secret").token(state, made.daemon.state.gangs[1])
        assert messages.admit(opening()) == (1, token)
        assert messages.admit(opening(task="worker-9")) is None
        assert messages.admit(opening(job="b")) is None

    play(tmp_path, scenario)


def test_steps_are_counted_and_show_in_the_jobs_progress(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, messages: TaskMessages) -> None:
        messages.hear(1, Changed("worker-0", 1, 0, ("worker-0",), 0.0, "start"))
        for step in (1, 2, 3):
            messages.hear(1, StepDone("worker-0", 1, step, 0, 8, 0.5, 0.1, 0.1, 0.0, 0.0))
        messages.hear(1, Transferred("worker-0", 1, "ring", 100, 0.1))
        record = (await made.service.job(ANN, "a")).job
        assert (record.step, record.loss) == (3, 0.5)
        assert metric(made, "muster_messages_total") == 5

    play(tmp_path, scenario)


def test_a_message_for_a_job_that_is_gone_is_dropped(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, messages: TaskMessages) -> None:
        messages.hear(99, StepDone("worker-0", 1, 1, 0, 8, 0.5, 0.1, 0.1, 0.0, 0.0))
        assert metric(made, "muster_messages_total") == 0

    play(tmp_path, scenario)


def test_a_resize_counts_once_however_many_members_report_it(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, messages: TaskMessages) -> None:
        both = ("worker-0", "worker-1")
        messages.hear(1, Changed("worker-0", 1, 0, ("worker-0",), 0.0, "start"))
        for name in both:
            messages.hear(1, Changed(name, 2, 5, both, 0.25, "plan"))
        assert metric(made, "muster_resizes_total") == 1

    play(tmp_path, scenario)


def test_checkpoints_in_quick_succession_are_journalled_once(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, messages: TaskMessages) -> None:
        def noted() -> int:
            return sum(isinstance(each.fact, Checkpointed) for each in made.daemon.store.facts())

        for step in (1, 2, 3):
            messages.hear(1, Saved("worker-0", step, "/c", 0.1))
        await until(made, lambda: noted() > 0)
        assert noted() == 1
        messages.forget(1)
        messages.hear(1, Saved("worker-0", 4, "/c", 0.1))
        await until(made, lambda: noted() == 2)

    play(tmp_path, scenario)
