"""Parts of a batch with which unequal devices finish together."""

from math import inf

import pytest

from muster.perf.balance import Bearer, finish, shares
from muster.perf.compute import Line


def bearer(per_sample: float, *, fixed: float = 0.0, devices: int = 1, most: float = inf) -> Bearer:
    return Bearer(Line(fixed, per_sample, 1.0), devices, most)


def test_devices_eight_to_one_apart_take_eight_to_one_samples() -> None:
    assert shares([bearer(1), bearer(2), bearer(4), bearer(8)], 15) == (8, 4, 2, 1)


def test_alike_devices_take_equal_parts() -> None:
    assert shares([bearer(1)] * 4, 64) == (16, 16, 16, 16)


def test_what_does_not_divide_makes_no_device_later_than_it_must() -> None:
    parts = shares([bearer(1)] * 4, 62)
    assert parts is not None
    assert sum(parts) == 62
    assert max(parts) == 16


def test_a_fixed_cost_is_paid_with_fewer_samples() -> None:
    # 10 + b1 = b2 and b1 + b2 = 30.
    assert shares([bearer(1, fixed=10), bearer(1)], 30) == (10, 20)


def test_a_device_that_could_not_finish_one_sample_in_time_takes_none() -> None:
    assert shares([bearer(100), bearer(1)], 20) == (0, 20)


def test_a_full_device_leaves_the_rest_to_the_others() -> None:
    assert shares([bearer(1, most=3), bearer(2)], 10) == (3, 7)


def test_what_fits_nowhere_is_refused() -> None:
    assert shares([bearer(1, most=3), bearer(1, most=4)], 8) is None
    assert finish([bearer(1, most=3), bearer(1, most=4)], 8) == inf


def test_devices_of_one_task_finish_like_devices_of_two() -> None:
    assert finish([bearer(2, devices=4)], 32) == pytest.approx(finish([bearer(2)] * 4, 32))


def test_whole_samples_finish_when_the_last_of_them_does() -> None:
    # Three samples on two devices of 1 s each: one device takes two.
    assert finish([bearer(1)] * 2, 3) == pytest.approx(2)
