"""Jobs are taken in while a cycle decides; whatever else comes waits for its decisions."""

import asyncio
import threading
from pathlib import Path

import pytest

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.daemon.assembly import RunningDaemon
from muster.daemon.service.protocol import ConflictError
from muster.model.view import View
from muster.policy.registry import POLICIES
from tests.unit.daemon.running_daemons import ADMIN, ANN, LONG, program, running_daemon, until


class Slow(Cycle):
    """A cycle that decides when it is let."""

    def __init__(self) -> None:
        super().__init__(POLICIES["fifo"])
        self.begun, self.go = threading.Event(), threading.Event()

    def decide(self, view: View, now: float, memory: Memory) -> Decisions:
        self.begun.set()
        assert self.go.wait(LONG)
        return super().decide(view, now, memory)


async def deciding(made: RunningDaemon) -> Slow:
    """The daemon in the middle of a cycle about the job `a`, which fits."""
    slow = Slow()
    made.daemon.deciding.cycle = slow
    await made.service.submit(ANN, program("a", "live", workers=2))
    assert await asyncio.to_thread(slow.begun.wait, LONG)
    return slow


def test_a_job_submitted_meanwhile_is_safe_at_once_and_decided_about_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            slow = await deciding(made)
            try:
                async with asyncio.timeout(LONG):
                    record = await made.service.submit(ANN, program("b", "live", workers=2))
                assert (record.number, record.status) == (2, "waiting")
                assert [each.job for each in await made.service.changes(ADMIN, 0)] == ["a", "b"]
                assert made.daemon.cycles == 0
            finally:
                slow.go.set()
            await until(made, lambda: len(made.daemon.state.gangs) == 2)
            assert all(node.free == 0 for node in await made.service.nodes(ADMIN))

    asyncio.run(scenario())


def test_a_name_in_use_waits_its_turn_and_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            slow = await deciding(made)
            again = asyncio.create_task(made.service.submit(ANN, program("a", "live")))
            other = asyncio.create_task(made.service.submit(ANN, program("b", "live")))
            try:
                async with asyncio.timeout(LONG):
                    await other
                assert not again.done()
            finally:
                slow.go.set()
            with pytest.raises(ConflictError, match="still active"):
                await again

    asyncio.run(scenario())


def test_a_stop_waits_for_the_decisions(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running_daemon(tmp_path) as made:
            slow = await deciding(made)
            stopped = asyncio.create_task(made.service.stop(ANN, "a"))
            try:
                async with asyncio.timeout(LONG):
                    await made.service.submit(ANN, program("b", "live"))
                assert not stopped.done()
            finally:
                slow.go.set()
            await stopped
            await until(made, lambda: "ann/a" not in made.daemon.view.names)
            kinds = [each.kind for each in (await made.service.job(ANN, "1")).changes]
            assert kinds.index("StartBegun") < kinds.index("StopAsked")

    asyncio.run(scenario())
