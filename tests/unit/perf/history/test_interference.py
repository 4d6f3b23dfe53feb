"""What neighbours leave of a link, and what observations make of it, by hand."""

import pytest

from muster.perf.estimate import BadMeasurementError
from muster.perf.history.interference import Background, Interference, Shared, left
from muster.perf.wires import Wire

SEEN = Shared(Wire.NIC, predicted=1.5, observed=2.0)


def test_neighbours_leave_what_they_do_not_ask_for() -> None:
    assert left(10e9, Background(3e9, 1), 1.0) == pytest.approx(7e9)


def test_but_never_less_than_a_fair_part() -> None:
    assert left(10e9, Background(8e9, 1), 1.0) == pytest.approx(5e9)
    assert left(10e9, Background(50e9, 3), 1.0) == pytest.approx(2.5e9)


def test_who_asks_for_nothing_takes_nothing() -> None:
    assert left(10e9, Background(0.0, 4), 1.0) == pytest.approx(10e9)


def test_a_factor_scales_the_excess() -> None:
    # 10/5 = 2 times as slow: an excess of 1. Half of it: 1.5; twice: 3.
    assert left(10e9, Background(9e9, 1), 0.5) == pytest.approx(10e9 / 1.5)
    assert left(10e9, Background(9e9, 1), 2.0) == pytest.approx(10e9 / 3)
    assert left(10e9, Background(9e9, 1), 0.0) == pytest.approx(10e9)


def test_without_observations_the_excess_shows_as_predicted() -> None:
    assert Interference().factor(Wire.NIC) == 1.0


def test_one_observation_against_a_prior_worth_two() -> None:
    # Observed excess 1.0 and twice the predicted 0.5, over three times 0.5: 2 / 1.5.
    assert Interference((SEEN,)).factor(Wire.NIC) == pytest.approx(4 / 3)


def test_many_observations_say_what_is() -> None:
    assert Interference((SEEN,) * 500).factor(Wire.NIC) == pytest.approx(2.0, rel=0.01)


def test_other_kinds_of_links_are_not_touched() -> None:
    assert Interference((SEEN,)).factor(Wire.SWITCH) == 1.0


def test_noise_below_one_counts_as_no_excess() -> None:
    # 0 observed, 2 * 0.5 of prior, over 3 * 0.5.
    found = Interference((Shared(Wire.NIC, 1.5, 0.9),)).factor(Wire.NIC)
    assert found == pytest.approx(2 / 3)


def test_where_no_slowdown_was_predicted_nothing_is_learnt() -> None:
    assert Interference((Shared(Wire.NIC, 1.0, 3.0),)).factor(Wire.NIC) == 1.0


def test_a_broken_machine_is_not_taken_for_a_neighbour() -> None:
    assert Interference((Shared(Wire.NIC, 1.1, 100.0),)).factor(Wire.NIC) == 4.0


@pytest.mark.parametrize("observed", [0.0, -1.0, float("nan"), float("inf")])
def test_a_slowdown_that_cannot_be_is_refused(observed: float) -> None:
    with pytest.raises(BadMeasurementError):
        Shared(Wire.NIC, 1.5, observed)


def test_a_prediction_that_is_no_number_is_refused() -> None:
    with pytest.raises(BadMeasurementError):
        Shared(Wire.NIC, float("nan"), 1.5)
