"""How trainings went and who held what is told to those who may see it, of finished jobs, too."""

import asyncio
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import NotFoundError, RefusedError
from muster.daemon.tasks.job_secrets import JobSecrets
from muster.daemon.tasks.orders import Surroundings
from muster.daemon.tasks.task_messages import TaskMessages
from muster.model.view import Phase
from muster.wire.tasks.messages import Changed, Report, StepDone
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ADMIN, ANN, BOB, program, running_daemon, until


def messages_of(made: RunningDaemon, folder: Path) -> TaskMessages:
    return TaskMessages(made.daemon, Surroundings(folder, "", JobSecrets("secret")))


async def _train(made: RunningDaemon, machine: Machine, folder: Path) -> None:
    """Run job 1 for three steps and a report, to its end."""
    await until(made, lambda: made.daemon.view.jobs[1].phase is Phase.RUNNING)
    messages = messages_of(made, folder)
    messages.hear(1, Changed("worker-0", 1, 0, ("worker-0",), 0.0, "start"))
    for step in (1, 2, 3):
        messages.hear(1, StepDone("worker-0", 1, step, 0, 8, 1.0 / step, 0.1, 0.1, 0.0, 0.0))
    messages.hear(1, Report("worker-0", {"accuracy": 0.75}))
    for task in list(machine.processes):
        machine.finish(task)
    await until(made, lambda: 1 not in made.daemon.view.jobs)


def test_the_past_of_a_job_outlives_it_and_its_daemon(tmp_path: Path) -> None:
    async def twice() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", "live"))
            await _train(made, machine, tmp_path)
        async with running_daemon(tmp_path, machine) as made:
            found = await made.service.curves(ANN, "a")
            loss, accuracy = found.curves
            assert (loss.what, loss.steps) == ("loss", (1, 2, 3))
            assert loss.values == pytest.approx((1.0, 0.5, 1 / 3))
            assert (loss.workers, loss.samples) == ((1, 1, 1), (8, 16, 24))
            assert (accuracy.what, accuracy.steps, accuracy.values) == ("accuracy", (3,), (0.75,))
            starting, running = found.spans
            assert (starting.status, running.status) == ("starting", "running")
            assert starting.ended == running.began and running.ended is not None
            assert starting.code.startswith("started.") and starting.reason
            assert running.devices == {"n0": (0,)}
            detail = await made.service.job(ANN, "a")
            assert [step for step, _ in detail.losses] == [1, 2, 3]
            with pytest.raises(NotFoundError):
                await made.service.curves(BOB, "1")

    asyncio.run(twice())


def test_a_live_training_is_told_up_to_its_last_step(tmp_path: Path) -> None:
    async def told() -> None:
        async with running_daemon(tmp_path) as made:
            await made.service.submit(ANN, program("a", "live"))
            await until(made, lambda: made.daemon.view.jobs[1].phase is Phase.RUNNING)
            messages = messages_of(made, tmp_path)
            for step in range(1, 2_000):
                messages.hear(1, StepDone("worker-0", 1, step, 0, 8, 1.0, 0.1, 0.1, 0.0, 0.0))
            (loss,) = (await made.service.curves(ANN, "a")).curves
            assert loss.steps[-1] == 1_999
            later = await made.service.curves(ANN, "a", after=loss.at[-1])
            assert later.curves == ()

    asyncio.run(told())


def test_a_late_report_of_an_earlier_step_bends_no_curve(tmp_path: Path) -> None:
    """Its samples, sorted by step, would seem to fall, and the rate after it to be in the millions."""

    async def told() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a", "live"))
            await until(made, lambda: made.daemon.view.jobs[1].phase is Phase.RUNNING)
            messages = messages_of(made, tmp_path)
            messages.hear(1, Changed("worker-0", 1, 0, ("worker-0", "worker-1"), 0.0, "start"))
            for rank, step in (("0", 1), ("1", 1), ("0", 2), ("0", 3), ("1", 2), ("0", 4), ("1", 3)):
                messages.hear(1, StepDone(f"worker-{rank}", 1, step, 0, 8, 1.0, 0.1, 0.1, 0.0, 0.0))
            for task in list(machine.processes):
                machine.finish(task)
            await until(made, lambda: 1 not in made.daemon.view.jobs)
            (loss,) = (await made.service.curves(ANN, "a")).curves
            assert loss.steps == (1, 2, 3, 4)
            assert list(loss.samples) == sorted(loss.samples)
            assert list(loss.at) == sorted(loss.at)

    asyncio.run(told())


def test_others_see_that_a_device_is_in_use_and_not_by_whom(tmp_path: Path) -> None:
    async def told() -> None:
        async with running_daemon(tmp_path) as made:
            for name in ("a", "b", "c"):
                await made.service.submit(ANN, program(name, "live"))

            def running_spans() -> int:
                spans = made.daemon.store.unended_spans()
                return sum(span.status == "running" for span in spans)

            await until(made, lambda: running_spans() == 3)
            every = await made.service.timeline(ADMIN)
            running = [span for span in every.spans if span.ended is None]
            assert [(span.number, span.job, span.user) for span in running] == [
                (1, "a", "ann"),
                (2, "b", "ann"),
                (3, "c", "ann"),
            ]
            held = {device for span in running for device in span.devices["n0"]}
            assert len(held) == 3
            others = await made.service.timeline(BOB)
            assert [span.devices for span in others.spans] == [span.devices for span in every.spans]
            hidden = {(s.number, s.job, s.user, s.workers, s.code, s.reason) for s in others.spans}
            assert hidden == {(None, None, None, 0, "", "")}
            first = await made.service.timeline(ANN, limit=2)
            assert first.next is not None
            rest = await made.service.timeline(ANN, first.since, first.until, first.next)
            mine = await made.service.timeline(ANN, first.since, first.until)
            assert first.spans + rest.spans == mine.spans
            with pytest.raises(RefusedError, match="is not a cursor"):
                await made.service.timeline(ANN, cursor="x")

    asyncio.run(told())
