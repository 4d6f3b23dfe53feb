"""Hold, release, requeue, priority and forced stop of live jobs."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.loop.entry import Entry
from muster.daemon.service.protocol import ConflictError, NotFoundError, RefusedError
from muster.model.event import PreemptBegun
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import (
    ADMIN,
    ANN,
    BOB,
    program,
    running_daemon,
    state_of,
    until,
)


def play(tmp_path: Path, scenario: Callable[[RunningDaemon, Machine], Awaitable[None]]) -> None:
    async def played() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await scenario(made, machine)

    asyncio.run(played())


async def running(made: RunningDaemon, name: str) -> None:
    await until(made, lambda: state_of(made, name).phase == "running")


def test_a_waiting_job_that_is_held_lets_others_pass_until_it_is_released(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("first", workers=4))
        await running(made, "first")
        await service.submit(ANN, program("held"))
        record = await service.hold(ADMIN, "held")
        assert (record.status, record.code) == ("waiting", "waiting.held")
        assert record.reason.startswith("held by root")
        await service.submit(ANN, program("later"))
        await service.stop(ANN, "first")
        await running(made, "later")
        assert state_of(made, "held").phase == "waiting", "three devices are free, and it is held"
        assert (await service.release(ANN, "held")).code != "waiting.held"
        await running(made, "held")

    play(tmp_path, scenario)


def test_a_running_job_that_is_held_is_stopped_and_waits(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("a"))
        await running(made, "a")
        assert (await service.hold(ANN, "a")).status == "preempting"
        await until(made, lambda: state_of(made, "a").phase == "waiting")
        assert (await service.job(ANN, "a")).job.code == "waiting.held"
        await service.hold(ANN, "a")  # idempotent
        await service.submit(ANN, program("b"))
        await running(made, "b")
        assert state_of(made, "a").phase == "waiting"
        await service.release(ANN, "a")
        await running(made, "a")
        assert (await service.job(ANN, "a")).job.losses == 0

    play(tmp_path, scenario)


def test_a_hold_outlives_the_daemon(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("a"))
            await running(made, "a")
            await made.service.hold(ANN, "a")
            await until(made, lambda: state_of(made, "a").phase == "waiting")
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("b"))
            await running(made, "b")
            assert state_of(made, "a").held_by == "ann"
            assert state_of(made, "a").phase == "waiting"
            await made.service.release(ANN, "a")
            await running(made, "a")

    asyncio.run(scenario())


def test_a_requeued_job_stops_and_starts_again_without_a_loss(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, machine: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("a"))
        await running(made, "a")
        await service.requeue(ANN, "a")
        await until(made, lambda: len(machine.processes) == 2)
        await running(made, "a")
        detail = await service.job(ANN, "a")
        assert (detail.job.losses, detail.job.failures) == (0, 0)
        assert "requeued by ann" in [change.text for change in detail.changes]
        await service.submit(ANN, program("wide", workers=4))
        with pytest.raises(ConflictError, match="in the queue"):
            await service.requeue(ANN, "wide")

    play(tmp_path, scenario)


def test_a_new_priority_counts_from_the_next_cycle_on(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        for name in ("first", "second", "third"):
            await service.submit(ANN, program(name, workers=4))
        await running(made, "first")
        assert (await service.set_priority(ANN, "third", 5)).priority == 5
        await service.stop(ANN, "first")
        await running(made, "third")
        assert state_of(made, "second").phase == "waiting"
        with pytest.raises(RefusedError, match="from -1000000 to 1000000"):
            await service.set_priority(ANN, "third", 10**9)

    play(tmp_path, scenario)


def test_a_waiting_job_is_given_an_ending_and_a_program_without_losses_is_not(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("first", workers=4))
        await running(made, "first")
        await service.submit(ANN, program("second"))
        record = await service.set_until(ANN, "second", "converged 1%")
        assert record.until == "converged 1% for 3 epochs"
        assert state_of(made, "second").job.program.until == record.until
        assert (await service.set_until(ANN, "second", "")).until == ""
        with pytest.raises(RefusedError, match="'soon' is not an ending; write loss"):
            await service.set_until(ANN, "second", "soon")
        with pytest.raises(ConflictError, match="reports no loss"):
            await service.set_until(ANN, "first", "loss < 1")

    play(tmp_path, scenario)


def test_a_forced_stop_kills_at_once_also_what_ignores_a_gentle_one(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, machine: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("a", "stubborn"))
        await running(made, "a")
        assert (await service.stop(ANN, "a")).status == "stopping"
        (process,) = machine.processes.values()
        await until(made, lambda: bool(process.signals))
        await service.stop(ANN, "a", force=True)
        await until(made, lambda: not made.daemon.view.jobs)
        assert process.signals == [signal.SIGTERM, signal.SIGKILL]
        assert (await service.job(ANN, "a")).job.status == "cancelled"

    play(tmp_path, scenario)


def test_only_live_jobs_that_one_may_see_can_be_changed(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("a", "exit", "0"))
        await until(made, lambda: not made.daemon.view.jobs)
        for change in (service.hold, service.release, service.requeue):
            with pytest.raises(NotFoundError):
                await change(BOB, "a")
            with pytest.raises(ConflictError, match="succeeded"):
                await change(ANN, "a")
        with pytest.raises(ConflictError, match="succeeded"):
            await service.set_priority(ANN, "a", 1)

    play(tmp_path, scenario)


@pytest.mark.parametrize("verb", ["stop", "hold", "requeue"])
def test_a_request_that_a_cycle_overtakes_is_not_refused(tmp_path: Path, verb: str) -> None:
    """The job is preempted after the request has looked at it and before it is written."""

    async def scenario(made: RunningDaemon, _: Machine) -> None:
        service = made.service
        await service.submit(ANN, program("a"))
        await running(made, "a")
        state = state_of(made, "a")
        preempted = PreemptBegun(state.number, state.generation, service.now())
        made.daemon.post(Entry([preempted]))
        record = await getattr(service, verb)(ANN, "a")
        assert record.status in {"stop": ("stopping", "cancelled")}.get(verb, ("preempting", "waiting"))

    play(tmp_path, scenario)
