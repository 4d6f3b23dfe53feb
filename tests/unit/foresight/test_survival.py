"""Distributions of lengths, conditional on what has passed."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from muster.foresight.survival import FARTHEST, Seen, survival

LENGTHS = [Seen(60.0 * i) for i in range(1, 100)]
"""A minute to 99."""


def test_a_new_job_is_like_all_before_it() -> None:
    found = survival(LENGTHS)
    assert [found.at(part) for part in (0.105, 0.505, 0.905)] == [660.0, 3060.0, 5460.0]


def test_a_job_that_has_run_for_long_is_not_a_new_one() -> None:
    """After 80 minutes it is like the 19 that took longer."""
    found = survival(LENGTHS, beyond=80 * 60.0)
    assert found.at(0.0) == 81 * 60.0
    assert found.at(0.5) == 91 * 60.0


def test_jobs_that_still_run_keep_the_short_ones_from_being_all() -> None:
    """Ten took a minute; ten that began with them have run for an hour."""
    ended, running = [Seen(60.0)] * 10, [Seen(3600.0, over=False)] * 10
    assert survival(ended).at(0.6) == 60.0
    assert survival([*ended, *running]).at(0.6) > 3600.0


def test_one_that_outlives_all_takes_as_long_again() -> None:
    assert survival(LENGTHS, beyond=6000.0).at(0.5) == pytest.approx(2 * 6000.0)


SEEN = some.lists(some.builds(Seen, some.floats(1.0, 1e6), some.booleans()), max_size=30)


@given(SEEN, some.floats(0.0, 2e6), some.floats(0.0, 1.0), some.floats(0.0, 1.0))
def test_quantiles_rise_and_exceed_what_has_passed(
    seen: list[Seen], beyond: float, one: float, other: float
) -> None:
    found = survival(seen, beyond)
    low, high = sorted((one, other))
    assert beyond <= found.at(low) <= found.at(high) <= FARTHEST * found.tail
