"""The speed of devices of several types together."""

import pytest

from muster.model.outlook import Table
from muster.perf.learnt.tables import ByType
from muster.perf.mixture import mixed_rate


def speeds(**tables: tuple[float, ...]) -> ByType:
    return ByType(tuple((name, Table(rates)) for name, rates in tables.items()))


def test_devices_that_lose_nothing_to_each_other_add_up() -> None:
    assert mixed_rate(speeds(A=(2.0, 4.0), B=(1.0, 2.0)), {"A": 1, "B": 1}) == pytest.approx(3.0)


def test_one_type_is_as_fast_as_ever() -> None:
    assert mixed_rate(speeds(A=(2.0, 3.0), B=(1.0, 1.5)), {"A": 2, "B": 0}) == 3.0


def test_links_cost_all_types_the_same() -> None:
    # Computing 1 / 3 of a s, and 0.1 s to synchronise two devices of any type.
    two = speeds(A=(2.0, 1 / (1 / 4 + 0.1)), B=(1.0, 1 / (1 / 2 + 0.1)))
    assert mixed_rate(two, {"A": 1, "B": 1}) == pytest.approx(1 / (1 / 3 + 0.1))


def test_of_a_power_law_the_mean_speed_counts() -> None:
    # Two devices are worth 2^0.5; of speeds 2 and 1 the mean is 1.5.
    root = 2**0.5
    two = speeds(A=(2.0, 2 * root), B=(1.0, root))
    assert mixed_rate(two, {"A": 1, "B": 1}) == pytest.approx(1.5 * root)


def test_a_type_on_which_it_cannot_run_is_not_mixed() -> None:
    assert mixed_rate(speeds(A=(2.0, 4.0)), {"A": 1, "B": 1}) == 0.0
