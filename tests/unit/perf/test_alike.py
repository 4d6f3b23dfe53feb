"""How long the next job of an application is, by those that have ended."""

from itertools import pairwise
from math import log, sqrt

import pytest

from muster.perf.learnt.alike import AlikeLeft, Scatter


def test_the_first_that_ended_tells_of_the_next_as_far_as_jobs_of_applications_are_alike() -> None:
    near, far = AlikeLeft.of([100.0], 0.1), AlikeLeft.of([100.0], 0.8)
    assert near.left(0.0).middle == pytest.approx(100.0, rel=0.05)
    # Between two jobs of deviation s the difference has s sqrt(2).
    assert near.left(0.0).spread == pytest.approx(0.1 * sqrt(2), rel=0.2)
    assert far.left(0.0).spread > 5 * near.left(0.0).spread


def test_the_example_of_the_page_on_learning() -> None:
    alike = AlikeLeft.of([90.0, 100.0, 130.0], 0.3)
    assert [round(alike.left(each).middle) for each in (0.0, 99.0, 300.0)] == [108, 27, 295]
    assert alike.left(0.0).spread == pytest.approx(0.3, abs=0.02)


def test_a_job_a_little_longer_than_all_others_ends_soon() -> None:
    alike = AlikeLeft.of([80.0, 90.0, 100.0, 110.0], 0.2)
    assert alike.left(112.0).middle < 20.0


def test_a_job_far_beyond_all_others_takes_as_long_again() -> None:
    alike = AlikeLeft.of([80.0, 90.0, 100.0, 110.0], 0.2)
    assert alike.left(2_000.0).middle == pytest.approx(2_000.0, rel=0.05)
    assert alike.left(1e9).middle == pytest.approx(1e9, rel=0.05)


def test_many_alike_are_known_exactly() -> None:
    alike = AlikeLeft.of([100.0] * 30, 0.1)
    assert alike.left(40.0).middle == pytest.approx(60.0, rel=0.02)
    assert alike.left(40.0).spread < 0.15


def test_what_is_left_has_no_jump_where_the_table_begins_and_ends() -> None:
    alike = AlikeLeft.of([90.0, 100.0, 130.0], 0.3)
    done = [2.0 ** (i / 32) for i in range(480)]
    left = [alike.left(each).middle for each in done]
    assert all(each > 0.0 for each in left)
    ratios = [abs(log(b / a)) for a, b in pairwise(left)]
    assert max(ratios) < 0.25


def test_one_that_failed_at_once_does_not_make_all_lengths_unknown() -> None:
    scatter = Scatter()
    for _ in range(10):
        scatter.add([], [100.0])
        scatter.add([100.0], [100.0, 110.0])
    scatter.add([], [0.0])
    scatter.add([0.0], [0.0, 100.0])
    assert scatter.usual < 1.5
    assert AlikeLeft.of([0.0], 0.3).left(0.0).middle >= 0.0


def test_applications_tell_how_much_jobs_of_another_differ() -> None:
    scatter = Scatter()
    before = scatter.usual
    for _ in range(20):
        scatter.add([100.0], [100.0, 101.0])
    assert scatter.usual < before / 2
