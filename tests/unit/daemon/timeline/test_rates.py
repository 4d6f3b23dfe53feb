"""The samples/s of a curve are those of the training, however its reports arrive."""

import pytest

from muster.daemon.timeline.rates import rates
from muster.store.batch import CurvePoint


def curve(*points: tuple[float, int]) -> list[CurvePoint]:
    """Points at moments, with the samples trained on by then."""
    return [CurvePoint(1, "loss", step, at, 0.5, seen, 1) for step, (at, seen) in enumerate(points)]


def test_reports_that_arrive_together_tell_no_burst() -> None:
    late = curve((0.0, 0), (0.5, 50), (1.0, 100), (1.99, 150), (1.99001, 200), (2.5, 250))
    assert [*rates(late)] == pytest.approx([0, 100, 100, 67, 101, 100], abs=1)


def test_a_slow_step_is_told_from_the_point_before() -> None:
    assert [*rates(curve((0.0, 0), (10.0, 100), (30.0, 200)))] == [0.0, 10.0, 5.0]


def test_a_training_that_starts_over_is_not_compared_with_the_one_before() -> None:
    assert [*rates(curve((0.0, 0), (2.0, 100), (4.0, 10), (6.0, 30)))] == [0.0, 50.0, 0.0, 10.0]
