"""Figures of a simulation, worked out by hand."""

import numpy as np
import pytest

from muster.sim.report.curve import StepFunction, counted
from muster.sim.report.metrics import fairness, summary
from muster.sim.result import Fate, JobResult, Result
from tests.unit.sim.report.made_up import record, result, sample


def three_jobs(*more: JobResult) -> Result:
    """Four devices. a holds 2 from 0 to 10, b all from 10 to 20, c 2 from 20 to 30.

    Devices asked for: a and b 6 until 5, with c 8 until 10, b and c 6 until 20, c 2 until 30.
    """
    return result(
        record("a", devices=2, ended=10.0, held=20.0, lost=2.0, preemptions=1),
        record("b", devices=4, started=10.0, ended=20.0, held=40.0, resizes=2, migrations=3),
        record("c", devices=2, submitted=5.0, started=20.0, ended=30.0, held=20.0, failures=1),
        *more,
        samples=(sample(0.0, 2), sample(10.0, 4), sample(20.0, 2, stranded=2)),
    )


def test_completion_times() -> None:
    # 10, 20 and 25 s; p95 lies 0.95 x 2 = 1.9 steps after the first: 20 + 0.9 x 5.
    found = summary(three_jobs())
    assert found.mean == pytest.approx(55 / 3)
    assert found.median == 20.0
    assert found.p95 == pytest.approx(24.5)
    assert found.p99 == pytest.approx(24.9)
    assert found.makespan == 30.0


def test_waits_and_slowdowns() -> None:
    # Waits 0, 10 and 15 s; each would take 10 s alone.
    found = summary(three_jobs())
    assert found.wait == pytest.approx(25 / 3)
    assert found.wait_p95 == pytest.approx(14.5)
    assert found.slowdown == pytest.approx((1 + 2 + 2.5) / 3)


def test_a_job_of_a_moment_counts_as_ten_seconds_in_slowdowns() -> None:
    found = summary(result(record(alone=0.5, ended=20.0), samples=(sample(0.0),)))
    assert found.slowdown == 2.0


def test_finish_time_fairness() -> None:
    # Contention a: (5 x 6 + 5 x 8) / 10 / 4 = 1.75; b: (30 + 40 + 60) / 20 / 4 = 1.625;
    # c: (5 x 8 + 10 x 6 + 10 x 2) / 25 / 4 = 1.2. rho = T / (10 x contention).
    rho = fairness(three_jobs())
    assert rho == pytest.approx([10 / 17.5, 20 / 16.25, 25 / 12])
    found = summary(three_jobs())
    assert found.rho_worst == pytest.approx(25 / 12)
    assert found.rho_unfair == pytest.approx(2 / 3)


def test_without_contention_the_fair_share_is_all_that_was_asked_for() -> None:
    # One device of four is asked for: contention 1/4, of which no job profits.
    assert fairness(result(record(ended=15.0), samples=(sample(0.0),))) == pytest.approx([1.5])


def test_contention_rises_when_devices_are_lost() -> None:
    # Four devices asked for, of four until 5 and of two from then on: (1 + 2) / 2.
    lost = result(record(devices=4), samples=(sample(0.0), sample(5.0, capacity=2)))
    assert fairness(lost) == pytest.approx([10 / 15])


def test_devices_used_and_useful() -> None:
    # 80 device-seconds held and 2 lost, of 4 x 30.
    found = summary(three_jobs())
    assert found.utilisation == pytest.approx(80 / 120)
    assert found.useful == pytest.approx(78 / 120)
    assert found.lost == pytest.approx(2 / 3600)


def test_fragmentation_is_over_the_time_in_which_devices_are_free() -> None:
    # Two free and none stranded for 10 s, none free for 10 s, two free and both stranded for 10 s.
    assert summary(three_jobs()).fragmentation == pytest.approx(0.5)


def test_changes_are_counted() -> None:
    found = summary(three_jobs())
    assert (found.resizes, found.preemptions, found.migrations, found.failures) == (2, 1, 3, 1)


def test_jobs_refused_count_nowhere_else() -> None:
    refused = record("r", devices=99, submitted=1.0, started=None, ended=None, fate=Fate.REFUSED)
    found = summary(three_jobs(refused))
    assert (found.jobs, found.done, found.refused) == (4, 3, 1)
    assert found.rho_worst == pytest.approx(25 / 12)
    assert found.mean == pytest.approx(55 / 3)


def test_jobs_unfinished_ask_for_devices_and_have_no_completion_time() -> None:
    # u asks for 4 from 0 on and never ends, so contention is higher by 1 for everybody.
    unfinished = record("u", devices=4, started=None, ended=None, fate=Fate.UNFINISHED)
    found = summary(three_jobs(unfinished))
    assert found.unfinished == 1
    assert found.mean == pytest.approx(55 / 3)
    assert fairness(three_jobs(unfinished)) == pytest.approx([10 / 27.5, 20 / 26.25, 25 / 22])


def test_nothing_gives_nothing() -> None:
    found = summary(result())
    assert (found.jobs, found.mean, found.rho_worst, found.utilisation) == (0, None, None, None)
    assert (found.makespan, found.fragmentation, found.slowdown) == (None, None, None)


def test_time_before_the_first_job_is_nobodys_loss() -> None:
    # The cluster stands idle until 100; then one device of four is held for 10 s.
    late = record(submitted=100.0, started=100.0, ended=110.0, held=10.0)
    assert summary(result(late, samples=(sample(0.0), sample(100.0, 1)))).utilisation == 0.25


def test_a_step_function_has_a_mean_between_any_moments() -> None:
    steps = StepFunction(np.array([0.0, 2.0]), np.array([1.0, 3.0]))
    assert steps.mean(np.array([1.0, 4.0]), np.array([3.0, 4.0])) == pytest.approx([2.0, 3.0])


def test_things_that_end_and_begin_at_once_leave_no_gap() -> None:
    both = counted(np.array([0.0, 1.0]), np.array([1.0, 3.0]), np.array([2.0, 5.0]))
    assert both.at.tolist() == [0.0, 1.0, 3.0]
    assert both.value.tolist() == [2.0, 5.0, 0.0]
