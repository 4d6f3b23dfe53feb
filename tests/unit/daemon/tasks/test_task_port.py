"""The port to which tasks report: TLS off loopback, and only for tasks of the current run."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from muster.daemon.assembly import RunningDaemon
from muster.model.task import TaskOrder
from muster.runtime.members.link import CoordinatorLink
from muster.runtime.settings import from_environment
from muster.wire.tasks.messages import Ready
from tests.contract.fake_executor import Machine
from tests.unit.daemon.running_daemons import ANN, program, running_daemon, until

LONG = 20.0


@contextmanager
def linked(order: TaskOrder) -> Iterator[CoordinatorLink]:
    """A task's own end, as its environment says."""
    link = CoordinatorLink(from_environment(order.environ), "127.0.0.1:5", lambda _: None)
    link.send(Ready(order.id.name))
    link.start()
    try:
        yield link
    finally:
        link.close()


async def is_heard(link: CoordinatorLink) -> bool:
    return await asyncio.to_thread(link.flush, LONG)


async def submitted(made: RunningDaemon, machine: Machine) -> TaskOrder:
    await made.service.submit(ANN, program("a"))
    await until(made, lambda: bool(machine.processes))
    return next(iter(machine.processes.values())).order


@pytest.mark.parametrize(("listen", "scheme"), [("0.0.0.0", "tls://127."), ("", "127.")])
def test_off_loopback_tasks_report_over_tls(tmp_path: Path, listen: str, scheme: str) -> None:
    async def play() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine, listen=listen) as made:
            order = await submitted(made, machine)
            assert order.environ["MUSTER_COORDINATOR"].startswith(scheme)
            with linked(order) as link:
                assert await is_heard(link)

    asyncio.run(play())


def test_a_task_finds_the_next_daemon_though_its_certificate_is_another(tmp_path: Path) -> None:
    async def play() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine, listen="0.0.0.0") as made:
            order = await submitted(made, machine)
        with linked(order) as link:
            async with running_daemon(tmp_path, machine, listen="0.0.0.0"):
                assert await is_heard(link)

    asyncio.run(play())


def test_a_task_of_an_earlier_run_is_refused_by_the_daemon(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        machine = Machine()
        async with running_daemon(tmp_path, machine) as made:
            first = await submitted(made, machine)
            machine.finish(first.id, None, None, "node n0 is lost")
            await until(made, lambda: len(machine.processes) == 2)
            second = list(machine.processes.values())[1].order
            # The same name, on the same connection point: the token alone tells them apart.
            assert second.environ["MUSTER_TASK"] == first.environ["MUSTER_TASK"]
            with linked(first) as old:
                await asyncio.to_thread(_wait_for, caplog, "does not know this job's token")
                assert not await asyncio.to_thread(old.flush, 0.0)
                with linked(second) as new:
                    assert await is_heard(new)

    asyncio.run(play())


def _wait_for(caplog: pytest.LogCaptureFixture, words: str) -> None:
    until = time.monotonic() + LONG
    while words not in caplog.text:
        assert time.monotonic() < until, caplog.text
        time.sleep(0.01)
