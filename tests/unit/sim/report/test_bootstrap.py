"""Intervals on data whose spread is known."""

import numpy as np
import pytest

from muster.sim.report.bootstrap import draws, mean, quantiles


def test_the_mean_of_a_normal_sample_is_off_by_its_standard_error() -> None:
    # 400 values of deviation 2: the mean is within 1.96 x 2 / 20 = 0.196 with 95 % confidence.
    values = np.random.default_rng(1).normal(10, 2, (400, 1))
    found = draws([values], mean).interval(0)
    assert found.value == pytest.approx(values.mean())
    assert found.high - found.low == pytest.approx(2 * 0.196, rel=0.2)
    assert found.low < found.value < found.high


def test_the_median_of_a_normal_sample_is_less_sure_than_its_mean() -> None:
    # Its standard error is sqrt(pi / 2) = 1.25 times that of the mean.
    values = np.random.default_rng(2).normal(10, 2, (2000, 1))
    found = draws([values], quantiles(0.5)).interval(0)
    assert found.high - found.low == pytest.approx(2 * 1.96 * 1.25 * 2 / 2000**0.5, rel=0.35)


@pytest.mark.parametrize("level", [0.0, 0.5, 0.95, 1.0])
def test_a_quantile_of_counted_values_is_that_of_the_values_repeated(level: float) -> None:
    rng = np.random.default_rng(3)
    values = rng.exponential(size=(17, 2))
    counts = rng.integers(0, 4, size=(5, 17)).astype(float)
    found = quantiles(level)(values, counts)
    for row in range(5):
        repeated = np.repeat(values, counts[row].astype(int), axis=0)
        assert found[row] == pytest.approx(np.quantile(repeated, level, axis=0))


def test_several_quantiles_come_one_after_the_other() -> None:
    # Of 0..10 and 0..20 in steps: medians 5 and 10, then upper ends 10 and 20.
    values = np.stack([np.arange(11.0), 2 * np.arange(11.0)], axis=1)
    assert quantiles(0.5, 1.0)(values, np.ones((1, 11))).tolist() == [[5.0, 10.0, 10.0, 20.0]]


def test_a_policy_that_is_always_a_tenth_faster_is_so_for_sure() -> None:
    slow = np.random.default_rng(4).lognormal(7, 2, 500)
    found = draws([np.stack([slow, 0.9 * slow], axis=1)], mean)
    ratio = found.ratio(1, 0)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.9, 0.9, 0.9))
    # Each of the two by itself is far from sure.
    assert found.interval(0).high > 1.1 * found.interval(0).low


def test_pairs_are_compared_job_by_job() -> None:
    # Half of the jobs take 1 s more, half 1 s less, of about 1,000 s: the mean of 100 such differences
    # deviates by 0.1 s, so the ratio of means by 1.96 x 0.1 / 1,000, though jobs differ by hundreds.
    first = np.random.default_rng(5).uniform(500, 1500, 100)
    second = first + np.tile([1.0, -1.0], 50)
    found = draws([np.stack([first, second], axis=1)], mean).ratio(1, 0)
    assert found.value == pytest.approx(1.0, abs=1e-6)
    assert found.high - 1.0 == pytest.approx(0.196 / first.mean(), rel=0.3)


def test_seeds_are_drawn_before_jobs() -> None:
    # Two seeds whose jobs all take 0 and 10 s: a draw of two seeds has a mean of 0, 5 or 10.
    found = draws([np.zeros((50, 1)), np.full((50, 1), 10.0)], mean)
    assert set(found.drawn.ravel().tolist()) == {0.0, 5.0, 10.0}
    interval = found.interval(0)
    assert (interval.value, interval.low, interval.high) == (5.0, 0.0, 10.0)


def test_the_figure_of_several_seeds_is_the_mean_of_theirs() -> None:
    few, many = np.full((10, 1), 1.0), np.full((1000, 1), 3.0)
    assert draws([few, many], quantiles(0.95)).interval(0).value == 2.0


def test_one_seed_gives_one_interval() -> None:
    values = np.random.default_rng(6).exponential(size=(100, 1))
    assert draws([values], mean, seed=7).interval(0) == draws([values], mean, seed=7).interval(0)
    assert draws([values], mean, seed=7).interval(0) != draws([values], mean, seed=8).interval(0)


def test_more_jobs_than_are_drawn_at_once() -> None:
    values = np.random.default_rng(7).normal(5, 1, (2_100_000, 1))
    found = draws([values], mean, count=3)
    assert found.drawn.shape == (3, 1)
    assert found.drawn == pytest.approx(np.full((3, 1), 5.0), abs=0.01)
