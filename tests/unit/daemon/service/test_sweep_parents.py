"""Sweeps that wait for jobs, and jobs that wait for sweeps, in a whole daemon."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import FieldRefusedError
from muster.model.sweep import Sweep
from muster.store.store import open_store
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until
from tests.unit.daemon.service.test_pipelines import after, ended, status
from tests.unit.daemon.service.test_sweeps import a_sweep, play, running, shown


def behind(sweep: Sweep, *parents: str) -> Sweep:
    """The sweep after these."""
    return replace(sweep, template=after(sweep.template, *parents))


async def over(made: RunningDaemon) -> None:
    await until(made, lambda: not made.daemon.state.sweeps)


def test_no_member_enters_the_queue_before_what_the_sweep_comes_after_has_ended(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("prep"))
        record = await made.service.submit_sweep(ANN, behind(a_sweep(3), "prep:any"))
        assert (record.status, record.counts) == ("waiting", {"to come": 3})
        assert record.reason == "starts once job 1 (prep) has ended"
        await until(made, lambda: running(made) == ["prep"])
        assert len(made.daemon.view.jobs) == 1
        await made.service.stop(ANN, "prep")
        await until(made, lambda: len(running(made)) == 3)
        assert (await shown(made)).sweep.status == "running"

    play(tmp_path, scenario)


def test_a_sweep_whose_parent_ends_otherwise_is_skipped_and_so_are_those_after_it(
    tmp_path: Path,
) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("prep"))
        await made.service.submit_sweep(ANN, behind(a_sweep(3), "prep"))
        await made.service.submit(ANN, after(program("report"), "search"))
        await made.service.submit(ANN, after(program("rescue", "exit", "0"), "search:failed"))
        await made.service.stop(ANN, "prep")
        await over(made)
        record = (await shown(made)).sweep
        assert (record.status, record.reason) == ("skipped", "job 1 (prep) was stopped")
        await ended(made, "report", "skipped")
        assert (await made.service.job(ANN, "report")).job.reason == "sweep 2 (search) was skipped"
        await ended(made, "rescue", "succeeded")

    play(tmp_path, scenario)


@pytest.mark.parametrize(
    ("code", "when", "how"),
    [
        ("0", "ok", "succeeded"),
        ("0", "failed", "skipped"),
        ("1", "ok", "skipped"),
        ("1", "any", "succeeded"),
    ],
)
def test_a_job_waits_for_all_members_of_a_sweep(tmp_path: Path, code: str, when: str, how: str) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("prep"))
        await made.service.submit_sweep(ANN, behind(a_sweep(3, "exit", code, at_most=1), "prep:any"))
        job = await made.service.submit(ANN, after(program("report", "exit", "0"), f"search:{when}"))
        assert job.code == "waiting.after"
        assert job.reason.startswith("starts once sweep 2 (search) has ")
        await made.service.stop(ANN, "prep")
        await ended(made, "report", how)
        assert not made.daemon.state.sweeps, "the sweep ended first"

    play(tmp_path, scenario)


def test_what_has_ended_already_is_met_or_refused(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit_sweep(ANN, a_sweep(2, "exit", "1"))
        await over(made)
        with pytest.raises(FieldRefusedError, match=r"sweep 1 \(search\) has members that failed"):
            await made.service.submit(ANN, after(program("report"), "search"))
        await made.service.submit(ANN, after(program("report", "exit", "0"), "search:any"))
        await ended(made, "report", "succeeded")
        # Of one name, the newer is meant.
        await made.service.submit(ANN, program("search", "exit", "0"))
        await ended(made, "search", "succeeded")
        await made.service.submit_sweep(ANN, behind(a_sweep(2, "exit", "0", name="more"), "search"))
        await over(made)
        assert await status(made, "more.1") == "succeeded"

    play(tmp_path, scenario)


def test_a_waiting_sweep_can_be_stopped(tmp_path: Path) -> None:
    async def scenario(made: RunningDaemon) -> None:
        await made.service.submit(ANN, program("prep"))
        await made.service.submit_sweep(ANN, behind(a_sweep(3), "prep"))
        await made.service.stop_sweep(ANN, "search")
        await over(made)
        assert (await shown(made)).sweep.status == "stopped"

    play(tmp_path, scenario)


def test_a_daemon_that_starts_again_knows_what_a_sweep_waits_for(tmp_path: Path) -> None:
    async def played() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            await made.service.submit(ANN, program("prep"))
            await made.service.submit_sweep(ANN, behind(a_sweep(2, "exit", "0"), "prep:any"))
            await made.service.submit(ANN, after(program("report", "exit", "0"), "search"))
        store = open_store(str(tmp_path / "muster.db"))
        async with running_daemon(tmp_path, machine, store=store) as made:
            assert (await shown(made)).sweep.status == "waiting"
            await made.service.stop(ANN, "prep")
            await ended(made, "report", "succeeded")
            assert (await shown(made)).sweep.counts == {"succeeded": 2}

    asyncio.run(played())
