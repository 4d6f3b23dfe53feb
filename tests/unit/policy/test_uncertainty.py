"""What an uncertain length counts as."""

from math import exp

import pytest

from muster.policy.market.uncertainty import FIRMEST, counts_as, firmness


def test_a_certain_length_counts_as_itself() -> None:
    assert counts_as(100.0, 0.0) == 100.0


@pytest.mark.parametrize("spread", [0.1, 0.25, 0.5])
def test_a_little_uncertainty_counts_as_the_mean(spread: float) -> None:
    """The mean of a log-normal is its median times exp(spread^2 / 2)."""
    assert counts_as(100.0, spread) == pytest.approx(100.0 * exp(spread**2 / 2), rel=0.001)


def test_the_figure_at_spread_one_worked_out_by_hand() -> None:
    """At d = exp(0.55) = 1.733, Phi(0.55) = 0.7088 and Phi(-0.45) = 0.3264 (tables): (1.6487 * 0.3264 +
    1.733 * 0.2912) / 0.7088 = 1.471; d = 1.5 gives 1.476 and d = 2 gives 1.474."""
    assert counts_as(1.0, 1.0) == pytest.approx(1.471, abs=0.001)


def test_what_may_well_end_soon_is_worth_a_try() -> None:
    """With spread 3 the mean is 90 times the median; one in six ends within a twentieth of it."""
    assert counts_as(100.0, 3.0) < 100.0


def test_the_more_jobs_a_length_tells_of_the_sooner_it_is_worth_a_try() -> None:
    """Of two, at d = exp(-0.2) = 0.8187, Phi(-0.2) = 0.4207 and Phi(-1.2) = 0.1151 (tables):
    (2 x 1.6487 x 0.1151 + 0.8187 x 0.5793) / (2 x 0.4207) = 1.015; d = exp(-0.1) and exp(-0.3) give
    1.017."""
    assert counts_as(1.0, 1.0, 2) == pytest.approx(1.015, abs=0.001)
    assert counts_as(1.0, 1.0, 10) < counts_as(1.0, 1.0, 2) < counts_as(1.0, 1.0)
    assert counts_as(1.0, 0.0, 10) == 1.0


def test_the_less_is_known_the_more_it_takes_to_stop_a_job() -> None:
    assert firmness(0.0) == 1.0
    assert firmness(0.5) == pytest.approx(exp(0.5))
    assert firmness(99.0) == FIRMEST


def test_the_more_a_job_can_shrink_the_less_it_takes_to_stop_it() -> None:
    assert firmness(0.5, 0.5) == pytest.approx(exp(0.25))
    assert firmness(2.0, 0.0) == 1.0
