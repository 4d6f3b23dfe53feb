"""The cycle in its thread: decisions, broken ones, another policy."""

import asyncio

import pytest

from muster.core.cycle.cycle import Decisions, Memory
from muster.core.state.check import BrokenInvariantError
from muster.daemon.loop import cycle_thread
from muster.daemon.loop.cycle_thread import CycleThread
from muster.model.view import View
from tests.builders import cluster, job, view
from tests.numbers import number


@pytest.fixture
def asked() -> View:
    return view(cluster(1), [job("a", 2)])


def decide(thread: CycleThread, asked: View) -> Decisions | None:
    async def decided() -> Decisions | None:
        return await thread.decide(asked, 0.0)

    return asyncio.run(decided())


def test_a_job_that_fits_is_started(asked: View) -> None:
    thread = CycleThread("fifo")
    decided = decide(thread, asked)
    assert decided is not None
    assert [(each.job, each.kind) for each in decided.decisions] == [(number("a"), "start")]
    assert thread.memory == Memory(), "remembered only once the decisions are in the journal"
    thread.close()


def test_decisions_that_break_an_invariant_are_dropped_and_the_next_cycle_starts_afresh(
    asked: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = CycleThread("fifo")
    first = thread.cycle

    def broken(*_: object) -> None:
        raise BrokenInvariantError("two jobs on one device")

    with monkeypatch.context() as patch:
        patch.setattr(cycle_thread, "check", broken)
        assert decide(thread, asked) is None
    assert thread.cycle is not first
    assert decide(thread, asked) is not None
    thread.close()


def test_another_policy_begins_without_the_memory_of_the_last(asked: View) -> None:
    thread = CycleThread("tiresias")
    decided = decide(thread, asked)
    assert decided is not None
    thread.memory = decided.memory
    thread.set_policy("srtf")
    assert (thread.policy, thread.memory.policy) == ("srtf", None)
    assert decide(thread, asked) is not None
    thread.close()
