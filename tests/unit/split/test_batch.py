"""Parts of a batch with which unequal devices finish together."""

from dataclasses import dataclass
from math import inf

import pytest

from muster.split.batch import Bearer, finish, shares


@dataclass(frozen=True, slots=True)
class Line:
    fixed: float
    per_sample: float

    def seconds(self, batch: float) -> float:
        return self.fixed + self.per_sample * batch


def bearer(per_sample: float, *, fixed: float = 0.0, devices: int = 1, most: float = inf) -> Bearer:
    return Bearer(Line(fixed, per_sample), devices, most)


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


def test_devices_that_begin_after_the_others_have_finished_take_nothing() -> None:
    # By the formula over all three, (12 + 40 + 80) / 3 = 44 s; the first alone needs 12.
    late = [bearer(1), bearer(1, fixed=40), bearer(1, fixed=80)]
    assert finish(late, 12) == pytest.approx(12)
    assert shares(late, 12) == (12, 0, 0)


def test_the_rest_of_full_devices_is_shared_by_the_others() -> None:
    # The first is full with 10; the other two do 500 each.
    assert shares([bearer(1, most=10), bearer(2), bearer(2)], 1010) == (10, 500, 500)
    assert finish([bearer(1, most=10), bearer(2), bearer(2)], 1010) == pytest.approx(1000)


@pytest.mark.parametrize("each", [0.0, 1e-15, 1e-12])
def test_samples_that_take_no_time_are_shared_out_nevertheless(each: float) -> None:
    """All the time goes into what does not depend on the batch: as measured of tiny models."""
    parts = shares([bearer(each, fixed=0.05), bearer(each, fixed=0.05), bearer(each, fixed=0.07)], 24)
    assert parts is not None
    assert sum(parts) == 24
