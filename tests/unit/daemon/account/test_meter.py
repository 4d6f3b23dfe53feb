"""What jobs hold is charged to the hour, the job and the device type, idle and lost told apart."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.daemon.account.meter import FLUSH, HOUR, Meter, hours_between
from muster.daemon.loop.fold import Turn
from muster.daemon.loop.state import State
from muster.model.event import (
    Checkpointed,
    Ended,
    Outcome,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.job import Role
from muster.model.task import Fact, RuntimeSeen, TaskEnded, TaskExited, TaskId, TaskOrdered
from muster.store.batch import Use
from tests.builders import cluster, job, placement, view

ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n0", 2))


class Shop:
    """A state, and what is charged as facts change it."""

    def __init__(self) -> None:
        self.state = State(view(cluster(2)), {}, "fifo")
        self.meter, self.uses = Meter(), list[Use]()

    def happen(self, *facts: Fact) -> None:
        for fact in facts:
            self.state = self.state.after([fact])
            charges = self.meter.charges(Turn(self.state, {}, facts=[fact]))
            self.meter.adopt(charges)
            self.uses += charges.uses

    def pass_until(self, now: float) -> None:
        charges = self.meter.due(now)
        self.meter.adopt(charges)
        self.uses += charges.uses

    def sums(self, uses: Iterable[Use] | None = None) -> tuple[float, float, float]:
        every = list(self.uses if uses is None else uses)
        return sum(u.held for u in every), sum(u.idle for u in every), sum(u.lost for u in every)


def begun(at: float = 0.0, begin: float = 10.0) -> Shop:
    shop = Shop()
    asked = job("a", 1, most=2)
    number, ready = asked.number, at + begin
    shop.happen(
        Submitted(asked, at),
        StartBegun(number, 1, ONE, at),
        TaskOrdered(number, TaskId(number, 1, Role.WORKER, 0), ONE.slots[0], at),
        RuntimeSeen(number, ready),
        Started(number, 1, ready),
    )
    return shop


def test_starting_is_idle_and_running_is_not() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    shop.happen(Ended(number, 1, Outcome.SUCCEEDED, 110.0))
    assert shop.sums() == (110.0, 10.0, 0.0)
    (use, *_) = shop.uses
    assert (use.number, use.device_type, use.pool) == (number, "A100", "default")


def test_a_job_that_grows_is_charged_for_what_it_takes_from_the_moment_it_is_taken() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    shop.happen(ResizeBegun(number, 2, TWO, 100.0), Resized(number, 2, 105.0))
    shop.happen(Ended(number, 2, Outcome.SUCCEEDED, 200.0))
    assert shop.sums() == (100.0 + 2 * 100.0, 10.0, 0.0)


def test_a_stop_loses_what_was_done_since_the_last_checkpoint() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    shop.happen(
        Checkpointed(number, 1, 60.0), PreemptBegun(number, 1, 100.0), Preempted(number, 1, 104.0)
    )
    assert shop.sums() == (104.0, 14.0, 40.0)


def test_a_failed_job_has_lost_what_it_did_not_save_and_a_finished_one_nothing() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    shop.happen(Ended(number, 1, Outcome.FAILED, 50.0))
    assert shop.sums() == (50.0, 10.0, 40.0)


def test_a_job_that_breaks_has_lost_what_it_did_and_is_idle_until_it_is_back() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    died = TaskExited(TaskId(number, 1, Role.WORKER, 0), 60.0, signal=9)
    shop.happen(TaskEnded(number, died, 60.0, lost=True))
    shop.happen(Ended(number, 1, Outcome.FAILED, 80.0))
    assert shop.sums() == (80.0, 30.0, 50.0)


def test_hours_are_apart() -> None:
    shop, number = begun(HOUR - 20.0), job("a", 1, most=2).number
    shop.happen(Ended(number, 1, Outcome.SUCCEEDED, HOUR + 30.0))
    assert {use.hour for use in shop.uses} == {0, 1}
    assert shop.sums(use for use in shop.uses if use.hour == 1) == (30.0, 0.0, 0.0)


def test_what_goes_on_is_written_once_a_minute() -> None:
    shop = begun()
    assert shop.meter.flush(FLUSH).uses
    assert not shop.meter.flush(FLUSH + 1.0).uses


def test_the_next_daemon_goes_on_where_the_last_one_stopped_writing() -> None:
    shop, number = begun(), job("a", 1, most=2).number
    shop.happen(Checkpointed(number, 1, 40.0))
    shop.pass_until(70.0)
    after = Meter()
    after.restore(shop.state, {number: 70.0})
    shop.meter = after
    shop.happen(Ended(number, 1, Outcome.FAILED, 100.0))
    assert shop.sums() == (100.0, 10.0, 60.0)


@given(st.lists(st.tuples(st.sampled_from(["grow", "shrink", "save", "look"]), st.floats(0.1, 5e3))))
def test_nothing_is_charged_twice_or_forgotten(acts: list[tuple[str, float]]) -> None:
    shop, number = begun(), job("a", 1, most=2).number
    now, generation, devices, expected = 10.0, 1, 1, 10.0
    for act, seconds in acts:
        now, expected = now + seconds, expected + devices * seconds
        if act == "save":
            shop.happen(Checkpointed(number, generation, now))
        elif act == "look":
            shop.pass_until(now)
        elif (act == "grow") == (devices == 1):
            generation, devices = generation + 1, 3 - devices
            target = TWO if devices == 2 else ONE
            shop.happen(ResizeBegun(number, generation, target, now), Resized(number, generation, now))
    shop.happen(Ended(number, generation, Outcome.SUCCEEDED, now))
    held, idle, lost = shop.sums()
    assert held == pytest.approx(expected)
    assert (idle, lost) == (10.0, 0.0)
    assert all(end - begin <= HOUR for begin, end in hours_between(0.0, now))
