"""The decider in a real process: when it takes over, and what happens when it dies or hangs."""

import asyncio
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from math import inf

import pytest

from muster.core.cycle.cycle import Decisions
from muster.daemon.decider.process import DeciderProcess
from muster.daemon.loop.cycle_thread import CycleThread
from muster.model.decision import Kind, Promise
from muster.model.reason import Code
from muster.model.view import View
from tests.builders import cluster, job, placement, running, view

READY = 120.0


@pytest.fixture
def thread() -> Iterator[CycleThread]:
    """A thread for which every cycle is slow."""
    found = CycleThread("fifo", slow=-1.0)
    yield found
    found.close()


def asked() -> View:
    return view(cluster(1), [job("a", 2), job("big", 99)])


def decide(thread: CycleThread, now: float, seen: View | None = None) -> Decisions:
    async def decided() -> Decisions | None:
        return await thread.decide(seen or asked(), now)

    found = asyncio.run(decided())
    assert found is not None
    thread.memory = found.memory
    return found


def taken_over(thread: CycleThread) -> DeciderProcess:
    """Two slow cycles start it; it decides from the one on that finds it ready."""
    decide(thread, 0.0)
    assert thread.decider.child is None, "one may be slow by chance"
    decide(thread, 1.0)
    assert thread.decider.child is not None
    thread.decider.child.is_ready(READY)
    decide(thread, 2.0)
    assert thread.decider.child.seen is not None
    return thread.decider


def test_it_takes_over_once_cycles_are_slow_and_ends_with_the_thread(thread: CycleThread) -> None:
    decider = taken_over(thread)
    later = decide(thread, 3.0)
    assert [each.kind for each in later.decisions] == [Kind.START], "that `big` waits is known"
    assert asyncio.run(thread.remembered()).promises == later.memory.promises
    child = decider.child
    thread.close()
    assert child is not None and child.process.poll() is not None


def test_it_keeps_the_devices_that_an_administrator_has_made_room_on(thread: CycleThread) -> None:
    taken_over(thread)
    small, large = job("small", 1), job("large", 12)
    promised = placement(*((f"n{bit // 8}", 1 << bit % 8) for bit in range(12)))
    promise = Promise(large.number, promised, Code.WAITING_MIGRATION, inf)
    thread.memory = replace(thread.memory, promises=(promise,))
    runs = running(job("runs", 8), placement(*(("n1", 1 << bit) for bit in range(8))))
    decided = decide(thread, 3.0, view(cluster(2), [runs, large, small]))
    (wait,) = (each for each in decided.decisions if each.job == small.number)
    assert (wait.kind, wait.reason.code) == (Kind.WAIT, Code.WAITING_PROMISE)
    kept = asyncio.run(thread.remembered())
    assert [each.job for each in kept.promises] == [large.number]


def test_quick_cycles_need_none() -> None:
    thread = CycleThread("fifo", slow=60.0)
    for now in range(5):
        decide(thread, float(now))
    assert thread.decider.child is None
    thread.close()


@pytest.mark.parametrize(
    "blow",
    [
        pytest.param(signal.SIGKILL, id="dies"),
        pytest.param(signal.SIGSTOP, id="hangs", marks=pytest.mark.slow),
    ],
)
def test_one_that_dies_or_hangs_is_replaced_and_the_thread_decides_meanwhile(
    thread: CycleThread, blow: signal.Signals
) -> None:
    decider = taken_over(thread)
    decider._patience = 5.0
    child = decider.child
    assert child is not None
    os.kill(child.process.pid, blow)
    before = decide(thread, 3.0)
    assert len(before.decisions) == 2
    assert (decider.replaced, child.process.poll() is not None) == (1, True)
    assert decider.child is not None
    decider.child.is_ready(READY)
    after = decide(thread, 4.0)
    assert decider.child.seen is not None, "the new one decides"
    assert after.decisions == before.decisions


def test_another_policy_gets_a_decider_of_its_own(thread: CycleThread) -> None:
    decider = taken_over(thread)
    thread.set_policy("srtf")
    assert thread.decider is not decider and thread.decider.child is not None
    thread.decider.child.is_ready(READY)
    assert len(decide(thread, 5.0).decisions) == 2
    assert thread.decider.child.seen is not None
    assert decider.child is None
