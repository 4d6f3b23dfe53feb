"""What every carrier owes its driver. A new carrier is added to `CARRIERS` and passes unchanged."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import pytest

from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started
from muster.model.job import Job
from muster.model.reason import Code, Reason
from muster.sim.executor import VirtualClock, VirtualExecutor
from tests.builders import job, placement
from tests.numbers import name_of, number

WHY = Reason(Code.STARTED)
PLACE = placement(("n0", 1))


class Carrier(Protocol):
    """Carries out decisions about whole jobs and reports the outcome."""

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Begin what was decided; return at once. The outcome comes as an event."""
        ...

    def collect(self) -> Sequence[Event]:
        """Return the facts since the last call, oldest first."""
        ...


@dataclass(slots=True)
class Rig:
    """A carrier, and a way to let time pass for it."""

    carrier: Carrier
    wait: Callable[[float], None]

    def order(self, kind: Kind, asked: Job, generation: int) -> None:
        placed = None if kind in (Kind.PREEMPT, Kind.WAIT) else PLACE
        self.carrier.carry_out(asked, Decision(kind, asked.number, generation, WHY, placed))

    def after(self, seconds: float) -> list[Event]:
        self.wait(seconds)
        return list(self.carrier.collect())


def virtual() -> Rig:
    clock = VirtualClock()
    return Rig(VirtualExecutor(clock), lambda seconds: clock.move_to(clock.now() + seconds))


CARRIERS: dict[str, Callable[[], Rig]] = {"virtual": virtual}
JOB = job("j", duration=100.0, pause=10.0)


@pytest.fixture(params=CARRIERS.values(), ids=list(CARRIERS))
def rig(request: pytest.FixtureRequest) -> Rig:
    make: Callable[[], Rig] = request.param
    return make()


def kinds(events: Sequence[Event]) -> list[type[Event]]:
    return [type(event) for event in events]


def test_nothing_is_reported_before_anything_was_ordered(rig: Rig) -> None:
    assert rig.after(1e6) == []


def test_a_start_is_reported_with_its_generation(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 3)
    (started,) = rig.after(1.0)
    assert isinstance(started, Started)
    assert (started.job, started.generation) == (number("j"), 3)


def test_each_event_is_reported_once(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 1)
    rig.after(1.0)
    assert rig.after(1.0) == []


def test_a_run_ends_after_its_duration_and_not_before(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 1)
    assert kinds(rig.after(99.0)) == [Started]
    (ended,) = rig.after(1.0)
    assert isinstance(ended, Ended)
    assert (ended.job, ended.generation, ended.outcome) == (number("j"), 1, Outcome.SUCCEEDED)


@pytest.mark.parametrize(("kind", "event"), [(Kind.RESIZE, Resized), (Kind.MIGRATE, Migrated)])
def test_a_change_is_reported_with_its_generation(
    rig: Rig, kind: Kind, event: type[Resized | Migrated]
) -> None:
    rig.order(Kind.START, JOB, 1)
    rig.after(1.0)
    rig.order(kind, JOB, 2)
    assert rig.after(9.0) == []
    (changed,) = rig.after(1.0)
    assert isinstance(changed, event)
    assert changed.generation == 2


def test_a_stopped_run_is_reported_as_stopped_and_never_as_ended(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 1)
    rig.after(1.0)
    rig.order(Kind.PREEMPT, JOB, 1)
    (stopped,) = rig.after(10.0)
    assert isinstance(stopped, Preempted)
    assert stopped.generation == 1
    assert rig.after(1e6) == []


def test_a_run_that_ends_while_it_is_being_stopped_has_ended(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 1)
    rig.after(95.0)
    rig.order(Kind.PREEMPT, JOB, 1)
    assert kinds(rig.after(1e6)) == [Ended]


def test_nothing_is_heard_of_a_change_after_the_run_has_ended(rig: Rig) -> None:
    rig.order(Kind.START, JOB, 1)
    rig.after(95.0)
    rig.order(Kind.RESIZE, JOB, 2)
    assert kinds(rig.after(1e6)) == [Ended]


def test_a_job_that_was_stopped_goes_on_where_it_was(rig: Rig) -> None:
    """It has run for 50 s, and for the 10 s it took to stop."""
    rig.order(Kind.START, JOB, 1)
    rig.after(50.0)
    rig.order(Kind.PREEMPT, JOB, 1)
    rig.after(10.0)
    rig.order(Kind.START, JOB, 2)
    assert kinds(rig.after(39.0)) == [Started]
    (ended,) = rig.after(1.0)
    assert isinstance(ended, Ended)
    assert ended.generation == 2


def test_events_come_in_the_order_in_which_they_happened(rig: Rig) -> None:
    rig.order(Kind.START, job("slow", duration=50.0), 1)
    rig.order(Kind.START, job("fast", duration=20.0), 1)
    events = rig.after(1e6)
    assert [(type(e), name_of(e.job)) for e in events if isinstance(e, Started | Ended)] == [
        (Started, "slow"),
        (Started, "fast"),
        (Ended, "fast"),
        (Ended, "slow"),
    ]


def test_waiting_is_no_order(rig: Rig) -> None:
    rig.order(Kind.WAIT, JOB, 0)
    assert rig.after(1e6) == []
