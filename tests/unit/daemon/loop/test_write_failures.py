"""A journal that cannot be written: nothing changes, and nothing is lost or done twice."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from muster.daemon.assembly import House
from muster.daemon.gang.events import Exited
from muster.daemon.loop.entry import Entry
from muster.model.event import NodeDraining, Submitted
from muster.model.task import Decided, TaskEnded, TaskOrdered
from muster.store.batch import Batch
from muster.store.errors import StoreError
from tests.contract.fake_executor import Machine
from tests.unit.daemon.houses import LONG, house, program

Fail = Callable[[bool], None]


def play(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    scenario: Callable[[House, Machine, Fail], Awaitable[None]],
) -> None:
    """A daemon whose turns the test takes, and whose store fails when it is told to."""

    async def played() -> None:
        machine = Machine()
        async with house(tmp_path, machine, begin=False) as made:
            store = made.daemon.store
            write, set_setting = store.write, store.set_setting

            def full(*_: object) -> tuple[int, int]:
                raise StoreError("no space left on device")

            def fail(now: bool) -> None:
                monkeypatch.setattr(store, "write", full if now else write)
                monkeypatch.setattr(store, "set_setting", full if now else set_setting)

            await scenario(made, machine, fail)
            fail(False)

    asyncio.run(played())


async def start(made: House, *argv: str) -> None:
    """One job, decided about."""
    made.daemon.post(Entry([Submitted(program("a", *argv, number=1), made.daemon.clock.now())]))
    await made.daemon.turn()
    assert made.daemon.state.gangs[1].tasks


def facts(made: House, kind: type) -> int:
    return sum(isinstance(entry.fact, kind) for entry in made.daemon.store.facts())


def test_state_sights_and_summaries_stay_and_the_entries_succeed_later_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: House, machine: Machine, fail: Fail) -> None:
        daemon = made.daemon
        await start(made, "live")
        await daemon.turn()
        (task,) = daemon.state.gangs[1].tasks
        before = daemon.state, dict(daemon.sights), dict(daemon.summaries)
        machine.finish(task.task)
        fail(True)
        for _ in range(3):
            await daemon.turn()
            assert (daemon.state, daemon.sights, daemon.summaries) == before
        assert "no space left" in daemon.trouble
        fail(False)
        await daemon.turn()
        assert not daemon.trouble
        assert 1 not in daemon.view.jobs
        assert (1 in daemon.sights, 1 in daemon.summaries) == (False, False)
        await daemon.turn()
        assert facts(made, TaskEnded) == 1
        ended = daemon.store.job(1)
        assert ended is not None
        assert ended.status == "succeeded"

    play(tmp_path, monkeypatch, scenario)


def test_decisions_that_could_not_be_written_are_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: House, machine: Machine, fail: Fail) -> None:
        daemon, write = made.daemon, made.daemon.store.write

        def full_for_decisions(batch: Batch) -> tuple[int, int]:
            if any(isinstance(fact, Decided) for fact in batch.facts):
                raise StoreError("no space left on device")
            return write(batch)

        monkeypatch.setattr(daemon.store, "write", full_for_decisions)
        for at, name in enumerate("ab", 1):
            submitted = Submitted(program(name, workers=4, number=at), daemon.clock.now())
            daemon.post(Entry([submitted]))
        await daemon.turn()
        assert list(daemon.view.jobs) == [1, 2]
        assert not machine.processes
        assert [summary.code for summary in daemon.summaries.values()] == ["", ""]
        fail(False)
        async with asyncio.timeout(LONG):
            while not machine.processes:  # it finds that it can write again, then decides
                daemon.decide_soon()
                await daemon.turn()
        assert len(machine.processes) == 4
        assert facts(made, TaskOrdered) == 4
        # The job that waits got its reason, in its summary and in the journal.
        assert daemon.summaries[2].code.startswith("waiting.")
        assert facts(made, Decided) == 2

    play(tmp_path, monkeypatch, scenario)


def test_a_caller_is_told_at_once_and_the_entry_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: House, machine: Machine, fail: Fail) -> None:
        daemon = made.daemon
        (node,) = daemon.view.cluster.nodes
        fail(True)
        asked = asyncio.create_task(daemon.put(Entry([NodeDraining(node.name, 0.0)])))
        await asyncio.sleep(0)
        await daemon.turn()
        with pytest.raises(StoreError):
            await asked
        fail(False)
        await daemon.turn()
        assert facts(made, NodeDraining) == 0
        assert daemon.view.cluster.node(node.name).state == "up"

    play(tmp_path, monkeypatch, scenario)


def test_a_late_report_of_a_job_that_is_gone_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(made: House, machine: Machine, fail: Fail) -> None:
        daemon = made.daemon
        await start(made, "exit", "0")
        await daemon.turn()
        await daemon.turn()
        assert not daemon.view.jobs
        (process,) = machine.processes.values()
        assert process.exited is not None
        seq = daemon.seq
        daemon.post(Entry(events=[(1, Exited(process.exited))]))
        await daemon.turn()
        assert daemon.seq == seq

    play(tmp_path, monkeypatch, scenario)
