"""A job goes as fast as its steps were timed; tasks take their time to come and to go."""

import pytest

from muster.perf.learnt.held import Held
from muster.sim.executor import Pauses, Warmup
from support.measured import MeasuredJob, TimedStep
from tests.builders import job
from tests.unit.sim.scripted import FREE, Script, arrival, of, run, script, setting

TIMED = (TimedStep(1, 0.3), TimedStep(4, 0.1, 0.02))


def test_steps_that_were_timed_and_those_between() -> None:
    """0.3 = a + b and 0.1 = a + b / 4, so that T(2) = 1/30 + 4/30."""
    truth = MeasuredJob(100, TIMED, most=4)
    assert truth.step(1) == pytest.approx(0.3)
    assert truth.step(4) == pytest.approx(0.1)
    assert truth.step(2) == pytest.approx(5 / 30)
    assert truth.shown(Held("cpu", (4,)), 0.0).sync == 0.02


def test_of_one_number_of_workers_all_is_shared() -> None:
    assert MeasuredJob(100, (TimedStep(2, 0.2),)).step(4) == pytest.approx(0.1)


def test_more_workers_than_ever_were_take_some_time_still() -> None:
    assert MeasuredJob(100, (TimedStep(1, 1.0), TimedStep(2, 0.1))).step(100) > 0.0


def test_the_tail_takes_its_time_with_any_number_of_workers() -> None:
    """100 steps of 0.1 s, and 5 s."""
    made = setting(script((0.0, {"j": 4})))
    asked = arrival(job("j", 1, most=4), truth=MeasuredJob(100, TIMED, tail=5.0, most=4))
    assert of(run(made, asked), "j").ended == pytest.approx(15.0)


def test_a_job_begins_when_its_tasks_are_warm() -> None:
    """Two tasks take 3 + 2 x 2 s, then 50 s at 2 per s."""
    pauses = Pauses(start=0.0, resize=0.0, release=0.0, warmup=Warmup(3.0, 2.0))
    result = run(setting(script((0.0, {"j": 2})), pauses=pauses), arrival(job("j", 1, most=4)))
    assert of(result, "j").ended == pytest.approx(57.0)


def test_what_is_starting_cannot_be_changed_before_it_has() -> None:
    """Told at 2 s to have one worker, it has two until the start has come true at 7 s."""
    pauses = Pauses(start=0.0, resize=0.0, release=0.0, warmup=Warmup(3.0, 2.0))
    policy = script((0.0, {"j": 2}), (2.0, {"j": 1}))
    result = run(setting(policy, pauses=pauses), arrival(job("j", 1, most=4)))
    assert of(result, "j").ended == pytest.approx(107.0)


def test_a_job_goes_on_as_it_is_while_joiners_warm_up() -> None:
    """Started at 5; 40 s later one more is ordered, and trains 5 s after that: 45, then 55 at 2."""
    pauses = Pauses(start=0.0, resize=0.0, release=0.0, warmup=Warmup(3.0, 2.0))
    policy = script((0.0, {"j": 1}), (45.0, {"j": 2}))
    result = run(setting(policy, pauses=pauses), arrival(job("j", 1, most=4)))
    assert of(result, "j").ended == pytest.approx(5.0 + 45.0 + 55.0 / 2)


@pytest.mark.parametrize(("first", "meanwhile"), [(False, 5 * 8.0), (True, 5 * 3.0)])
def test_who_leaves_first_works_no_more_and_holds_its_devices(first: bool, meanwhile: float) -> None:
    """All 8 devices for 10 s, then 3 of them: in the 5 s of release the others work on, or they do not.
    Whoever waits for theirs has them 5 s later, either way."""
    pauses = Pauses(start=0.0, resize=0.0, release=5.0, leave_first=first)
    policy = script((0.0, {"a": 8, "b": 0}), (10.0, {"a": 3, "b": 5}))
    a, b = arrival(job("a", 1, most=8), 320.0), arrival(job("b", 5), 425.0)
    result = run(setting(policy, pauses=pauses), a, b)
    assert of(result, "a").ended == pytest.approx(15.0 + (320.0 - 80.0 - meanwhile) / 3)
    assert of(result, "b").ended == pytest.approx(15.0 + 425.0 / 5)


def test_who_is_stopped_first_does_nothing_while_it_ends() -> None:
    """10 s of work, 5 of ending, 30 in which another job has all devices, and the rest."""
    pauses = Pauses(start=0.0, resize=0.0, release=5.0, leave_first=True)
    policy = script((0.0, {"j": 1, "b": 0}), (10.0, {"j": 0, "b": 8}), (45.0, {"j": 1}))
    jobs = arrival(job("j", 1, most=2)), arrival(job("b", 8), 240.0)
    record = of(run(setting(policy, pauses=pauses), *jobs), "j")
    assert record.ended == pytest.approx(45.0 + 90.0)
    assert record.preemptions == 1


def test_a_steady_driver_asks_though_nobody_waits() -> None:
    policy = Script(((0.0, {"j": 1}),))
    run(setting(policy, pauses=FREE, interval=30.0, steady=True), arrival(job("j", 1)))
    assert policy.asked == [0.0, 30.0, 60.0, 90.0, 100.0]
