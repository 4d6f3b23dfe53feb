"""Shares of the batch that follow the workers' measured speed."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf
from random import Random

import pytest

from muster.runtime.errors import BadTrainingError
from muster.runtime.members.shares import Gauge, reshare

Line = tuple[float, float]


class Workers:
    """Workers with true lines (a in s, c in s/sample) on a virtual clock, and their gauges."""

    def __init__(self, lines: Sequence[Line], batch: int, noise: float = 0.0) -> None:
        self.lines, self.batch, self.noise = list(lines), batch, noise
        self.gauges = [Gauge() for _ in lines]
        even = batch // len(lines)
        self.shares: tuple[int, ...] = (batch - even * (len(lines) - 1), *[even] * (len(lines) - 1))
        self.random = Random(5)

    def step(self) -> float:
        """Seconds of a step by the true lines; shares are renewed after it."""
        true = [a + c * b for (a, c), b in zip(self.lines, self.shares, strict=True)]
        for gauge, samples, seconds in zip(self.gauges, self.shares, true, strict=True):
            gauge.note(samples, seconds * self.random.gauss(1, self.noise))
        fits, able = [inf] * len(self.lines), [True] * len(self.lines)
        measured = [gauge.line() for gauge in self.gauges]
        self.shares = reshare(measured, fits, able, self.batch, self.shares)
        return max(true)

    def ideal(self) -> float:
        """T = (M + sum a/c) / sum 1/c, as if samples could be cut."""
        return (self.batch + sum(a / c for a, c in self.lines)) / sum(1 / c for _, c in self.lines)


EIGHT_TO_ONE = [(0.0, 0.001), (0.0, 0.002), (0.0, 0.004), (0.0, 0.008)]


def gauged(*steps: tuple[int, float]) -> Line | None:
    gauge = Gauge()
    for samples, seconds in steps:
        gauge.note(samples, seconds)
    return gauge.line()


def evenly(batch: int, workers: int) -> tuple[int, ...]:
    return (batch // workers,) * workers


def test_a_worker_without_a_step_has_no_line() -> None:
    assert gauged() is None
    assert gauged((0, 0.1), (4, 0.0), (4, inf)) is None


def test_steps_of_one_size_give_a_line_through_zero() -> None:
    assert gauged((10, 0.2), (10, 0.2), (10, 0.2)) == pytest.approx((0, 0.02))


def test_steps_of_different_sizes_give_both_numbers() -> None:
    # t = 0.1 + 0.01 b.
    assert gauged((10, 0.2), (20, 0.3), (40, 0.5)) == pytest.approx((0.1, 0.01))


def test_one_slow_step_among_many_does_not_count() -> None:
    steps = [(b, 0.1 + 0.01 * b) for b in (10, 20, 40, 30, 25, 15, 35, 50)]
    for place in range(len(steps)):
        samples, seconds = steps[place]
        outlier = [*steps[:place], (samples, seconds + 5), *steps[place + 1 :]]
        assert gauged(*outlier) == pytest.approx((0.1, 0.01))


def test_a_slow_first_step_does_not_count_once_there_is_another() -> None:
    assert gauged((10, 3.0), (10, 0.2)) == pytest.approx((0, 0.02))


def test_a_slow_step_that_alone_is_of_its_size_does_not_make_a_slope() -> None:
    # The first step of a training, before the shares are balanced.
    assert gauged((16, 4.0), *[(32, 0.64)] * 5) == pytest.approx((0, 0.02))


def test_a_worker_that_looks_free_is_not_believed() -> None:
    # Twice the samples in no more time: at best a sample gets five times cheaper, 0.2/20/5.
    assert gauged(*[(10, 0.2)] * 3, *[(20, 0.2)] * 3) == pytest.approx((0.16, 0.002))


def test_three_steps_in_a_row_make_a_new_line_and_two_do_not() -> None:
    steady = [(10, 0.2)] * 9
    assert gauged(*steady, (10, 0.6), (10, 0.6)) == pytest.approx((0, 0.02))
    assert gauged(*steady, (10, 0.6), (10, 0.6), (10, 0.6)) == pytest.approx((0, 0.06))
    assert gauged(*steady, (10, 0.05), (10, 0.05), (10, 0.05)) == pytest.approx((0, 0.005))


def test_steps_of_another_size_are_no_sign_of_a_change() -> None:
    # t = 0.5 + 0.01 b: the first line, through zero, expects far more of the larger steps.
    small, large = [(10, 0.6)] * 4, [(100, 1.5)] * 4
    assert gauged(*small, *large) == pytest.approx((0.5, 0.01))


def test_speeds_eight_to_one_are_balanced_within_three_steps() -> None:
    # Rates 1000 + 500 + 250 + 125 samples/s: 240 samples in 0.128 s; equal shares take 60 x 8 ms.
    workers = Workers(EIGHT_TO_ONE, 240)
    assert workers.ideal() == pytest.approx(0.128)
    first, _, third = (workers.step() for _ in range(3))
    assert first == pytest.approx(0.48)
    assert third == pytest.approx(0.128, rel=0.05)
    assert workers.shares == (128, 64, 32, 16)


def test_a_fixed_cost_is_found_and_balanced() -> None:
    workers = Workers([(0.05, c) for _, c in EIGHT_TO_ONE], 240)
    seconds = [workers.step() for _ in range(8)]
    assert seconds[3] <= 1.05 * workers.ideal()
    assert max(seconds[3:]) <= 1.05 * workers.ideal()


def test_noise_does_not_move_shares_to_and_fro() -> None:
    workers = Workers(EIGHT_TO_ONE, 240, noise=0.05)
    for _ in range(15):
        workers.step()
    seen = []
    for _ in range(100):
        seen.append(workers.shares)
        assert workers.step() <= 1.15 * workers.ideal()
    assert sum(a != b for a, b in pairwise(seen)) <= 10


def test_one_slow_step_moves_nothing() -> None:
    workers = Workers(EIGHT_TO_ONE, 240)
    for _ in range(6):
        workers.step()
    before = workers.shares
    workers.lines[0] = (1.0, 0.001)
    workers.step()
    assert workers.shares == before


def test_a_worker_that_slows_down_half_way_gets_less_within_a_few_steps() -> None:
    workers = Workers([(0.0, 0.001)] * 4, 240)
    for _ in range(20):
        workers.step()
    workers.lines[0] = (0.0, 0.003)
    for _ in range(5):
        workers.step()
    # Rates 1/3 + 3 per ms: 240 samples in 72 ms, 24 of them by the slow one.
    assert workers.step() == pytest.approx(0.072, rel=0.05)
    assert workers.shares == (24, 72, 72, 72)


def test_memory_bounds_a_share() -> None:
    lines = [(0.0, 0.001), (0.0, 0.002)]
    assert reshare(lines, [10, inf], [True, True], 30, (15, 15)) == (10, 20)


def test_a_batch_that_fits_nowhere_says_all_the_numbers() -> None:
    with pytest.raises(BadTrainingError, match=r"64 samples.*2 workers holds 20, 30: 50 together"):
        reshare([None, None, None], [20, 30, 40], [True, True, False], 64, ())


def test_without_anybody_who_has_the_state_there_is_an_error() -> None:
    with pytest.raises(BadTrainingError, match="state"):
        reshare([None], [inf], [False], 8, ())


def test_a_worker_without_state_gets_nothing_and_with_it_an_ordinary_share() -> None:
    lines: list[Line | None] = [(0.0, 0.001), (0.0, 0.001), None]
    caps = [inf] * 3
    joining = reshare(lines, caps, [True, True, False], 60, (30, 30, 0))
    assert joining == (30, 30, 0)
    assert reshare(lines, caps, [True, True, True], 60, joining) == (20, 20, 20)


def test_before_the_first_step_the_plans_shares_stand() -> None:
    unknown, caps = [None] * 3, [inf] * 3
    assert reshare(unknown, caps, [True] * 3, 60, (40, 10, 10)) == (40, 10, 10)
    assert reshare(unknown, caps, [True] * 3, 60, ()) == (20, 20, 20)


def test_nobody_able_is_left_without_a_sample() -> None:
    lines = [(0.0, 0.001), (0.0, 0.001), (0.0, 10.0)]
    assert reshare(lines, [inf] * 3, [True] * 3, 21, ()) == (10, 10, 1)


def test_more_workers_than_samples_get_one_or_none() -> None:
    assert sorted(reshare([None] * 5, [inf] * 5, [True] * 5, 3, ())) == [0, 0, 1, 1, 1]


def test_a_gain_of_some_percent_is_wanted_for_a_change() -> None:
    caps, able = [inf, inf], [True, True]
    # One sample less for the first: 2 ms of 100, but rounding alone moves one.
    assert reshare([(0.0, 0.002), (0.0, 0.00196)], caps, able, 100, (50, 50)) == (50, 50)
    # 500 of 1000 each at 1 and 1.04 ms: 520 ms become 510, a gain of 2 %, though ten samples move.
    assert reshare([(0.0, 0.001), (0.0, 0.00104)], caps, able, 1000, (500, 500)) == (500, 500)
    # At 1 and 1.2 ms: 600 ms become 545.4, 545 and 455 samples (545.45 and 454.55).
    assert reshare([(0.0, 0.001), (0.0, 0.0012)], caps, able, 1000, (500, 500)) in (
        (545, 455),
        (546, 454),
    )


def test_shares_that_do_not_add_up_to_the_batch_are_replaced() -> None:
    # A member is gone: its 20 samples go to the others.
    lines = [(0.0, 0.001)] * 2
    assert reshare(lines, [inf] * 2, [True] * 2, 60, (20, 20)) == (30, 30)


def test_any_lines_give_whole_shares_of_exactly_the_batch() -> None:
    random = Random(11)
    for _ in range(300):
        count, batch = random.randint(1, 9), random.randint(1, 300)
        lines = [
            None if random.random() < 0.2 else (random.random() * 0.1, 10 ** random.uniform(-6, 0))
            for _ in range(count)
        ]
        caps = [random.choice([inf, float(batch)]) for _ in range(count)]
        able = [random.random() < 0.8 for _ in range(count)]
        able[0] = True
        shares = reshare(lines, caps, able, batch, evenly(batch, count))
        assert sum(shares) == batch
        assert all(share == 0 for share, can in zip(shares, able, strict=True) if not can)
        assert batch < sum(able) or all(s >= 1 for s, can in zip(shares, able, strict=True) if can)
