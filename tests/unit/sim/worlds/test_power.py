"""Speed-up by a power of the workers, by device type, and less when spread out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.perf.learnt.held import Held
from muster.sim.worlds.power import PowerLaw, PowerSpeed


def test_the_reference_takes_the_work_in_seconds() -> None:
    truth = PowerLaw(1000.0, PowerSpeed(reference=4, exponent=0.5))
    assert truth.pace(Held("V100", (4,)), 0.0).rate == 1.0


def test_four_times_the_workers_at_one_half_are_twice_as_fast() -> None:
    # (16 / 4)^0.5 = 2
    truth = PowerLaw(1000.0, PowerSpeed(reference=4, exponent=0.5))
    assert truth.pace(Held("V100", (8, 8)), 0.0).rate == pytest.approx(2.0)
    assert truth.shown(Held("V100", (8, 8)), 0.0).step == pytest.approx(0.5)


def test_a_faster_type_has_its_factor() -> None:
    speed = PowerSpeed(factors={"V100": 2.5})
    assert speed.rate("V100", 1) == 2.5
    assert speed.rate("P100", 1) == 1.0


def test_each_node_beyond_the_fewest_lengthens_a_step() -> None:
    # 8 workers fit on two nodes of 4; on four nodes there are two too many: 8 / (1 + 2 · 0.1)
    truth = PowerLaw(100.0, spread=0.1, per_node=4)
    assert truth.pace(Held("V100", (4, 4)), 0.0).rate == pytest.approx(8.0)
    assert truth.pace(Held("V100", (2, 2, 2, 2)), 0.0).rate == pytest.approx(8 / 1.2)


def test_what_is_left_and_the_speed_are_the_oracles() -> None:
    outlook = PowerLaw(100.0, PowerSpeed(exponent=0.5)).outlook(40.0)
    assert outlook.left == 60.0
    assert outlook.speed.rate("V100", 9) == pytest.approx(3.0)
    assert outlook.speed.rate("V100", 0) == 0.0


def test_a_convex_speed_up_is_refused() -> None:
    with pytest.raises(ValueError, match="concave"):
        PowerSpeed(exponent=1.2)


@given(st.floats(0.05, 1.0), st.integers(1, 64))
def test_every_further_worker_adds_no_more_than_the_one_before(exponent: float, workers: int) -> None:
    rate = [PowerSpeed(exponent=exponent).rate("", k) for k in (workers - 1, workers, workers + 1)]
    assert rate[2] - rate[1] <= (rate[1] - rate[0]) * (1 + 1e-9)
    assert rate[2] > rate[1]
