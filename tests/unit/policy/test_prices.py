"""Prices against heSRPT's closed form and cases worked by hand."""

import numpy as np
import pytest

from muster.policy.market.deal import Offer, deal
from muster.policy.market.prices import Market, gains, hull, sizes


def power(devices: int, exponent: float) -> np.ndarray:
    """What each further device adds to k^p."""
    return np.diff(np.arange(devices + 1) ** exponent)


@pytest.mark.parametrize("exponent", [0.5, 0.75])
def test_power_laws_have_the_prices_of_hesrpt(exponent: float) -> None:
    # c_i = (i^q - (i-1)^q)^(1/q) / s(n), q = 1 / (1 - p), the longest being i = 1.
    devices, q = 4_000, 1 / (1 - exponent)
    market = Market({"a": devices})
    found = [market.enter({"a": power(devices, exponent)})[0] for _ in range(5)]
    wanted = [(i**q - (i - 1) ** q) ** (1 / q) / devices**exponent for i in range(1, 6)]
    assert found == pytest.approx(wanted, rel=1e-3)


def test_power_laws_get_the_shares_of_hesrpt() -> None:
    # p = 1/2, q = 2, three jobs: (1/3)^2, (2/3)^2 - (1/3)^2, 1 - (2/3)^2 of 900: 100, 300, 500.
    market = Market({"a": 900})
    prices = [market.enter({"a": power(900, 0.5)})[0] for _ in range(3)]
    counts = tuple(range(901))
    offers = [Offer(counts, tuple(price * k**0.5 for k in counts)) for price in prices]
    assert deal(offers, 900) == pytest.approx([100, 300, 500], abs=2)


def test_linear_speeds_are_priced_by_how_many_wait() -> None:
    # One machine: a unit of the shortest keeps i jobs waiting for 1 / s(n) each (SRPT).
    market = Market({"a": 4})
    linear = np.ones(4)
    assert [market.enter({"a": linear})[0] for _ in range(3)] == pytest.approx([1 / 4, 2 / 4, 3 / 4])


def test_without_contention_everybody_keeps_only_itself_waiting() -> None:
    # Two devices each are all they can use, and there are eight: c = 1 / s(2).
    market = Market({"a": 8})
    assert [market.enter({"a": np.ones(2)})[0] for _ in range(4)] == pytest.approx([1 / 2] * 4)


def test_a_weight_is_as_many_jobs() -> None:
    market = Market({"a": 4})
    assert market.enter({"a": np.ones(4)}, 3.0)[0] == pytest.approx(3 / 4)
    # 3 + 1 wait now; all four devices to the second: 4 / 4, one: (4 - 3 * 3/4) / 1.
    assert market.enter({"a": np.ones(4)}, 1.0)[0] == pytest.approx(1.0)


def test_a_job_that_cannot_run_keeps_nobody_waiting() -> None:
    market = Market({"a": 4})
    assert market.enter({"b": np.ones(4)}) == (0.0, "")
    assert market.enter({}) == (0.0, "")
    assert market.enter({"a": np.ones(4)})[0] == pytest.approx(1 / 4)


def test_a_job_is_priced_where_it_keeps_the_others_waiting_least() -> None:
    market = Market({"fast": 2, "slow": 2})
    alike = {"fast": 2 * np.ones(2), "slow": np.ones(2)}
    # Alone: 1 / 4 on the fast, 1 / 2 on the slow.
    price, where = market.enter(alike)
    assert where == "fast"
    assert price == pytest.approx(1 / 4)
    # Then (2 - 0) / 4 on the fast, where the first would have to go, and (2 - 1) / 2.2 on the slow for
    # one that is a little better there.
    better = {"fast": 2 * np.ones(2), "slow": 1.1 * np.ones(2)}
    price, where = market.enter(better)
    assert where == "slow"
    assert price == pytest.approx(1 / 2.2)


def test_speeds_are_replaced_by_their_hull() -> None:
    assert hull((0, 1, 2, 3), (0.0, 1.0, 1.5, 3.5)) == [0, 3]
    assert gains((1, 2, 3), (4.0, 5.0, 3.0)).tolist() == [4.0, 1.0]
    # A gang of 4 with speed 2, 6 at most with speed 3: half a unit for each device.
    assert gains((4, 6), (2.0, 3.0)).tolist() == [0.5] * 6
    assert gains((), ()).tolist() == []


def test_sizes_are_dense_where_few_and_an_eighth_apart_where_many() -> None:
    assert sizes(1, 4) == (1, 2, 3, 4)
    assert sizes(3, 3) == (3,)
    assert sizes(5, 4) == ()
    assert sizes(15, 41) == (15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 41)
    assert len(sizes(1, 4_096)) < 100
