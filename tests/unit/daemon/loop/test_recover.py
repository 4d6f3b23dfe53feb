"""The start of a daemon on another cluster than the one its journal knows."""

import asyncio
from pathlib import Path

import pytest

from muster.daemon.loop.recover import ClusterChangedError
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, state_of, until


async def left_running(tmp_path: Path, machine: Machine) -> None:
    """A daemon that is stopped while a job runs."""
    async with running_daemon(tmp_path, machine) as made:
        await made.service.submit(ANN, program("a"))
        await until(made, lambda: state_of(made, "a").phase == "running")


def test_a_job_that_ended_meanwhile_does_not_keep_the_devices_as_they_were(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        await left_running(tmp_path, machine)
        (task,) = machine.processes
        machine.finish(task)
        async with running_daemon(tmp_path, machine, devices=2) as made:
            assert (await made.service.job(ANN, "a")).job.status == "succeeded"
            assert (await made.service.status()).devices == 2

    asyncio.run(scenario())


def test_a_job_that_still_runs_does_and_is_named(tmp_path: Path) -> None:
    async def scenario() -> None:
        machine = Machine()
        await left_running(tmp_path, machine)
        with pytest.raises(ClusterChangedError, match="active: a; start with the same devices"):
            async with running_daemon(tmp_path, machine, devices=2):
                pass

    asyncio.run(scenario())
