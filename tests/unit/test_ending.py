"""When a training ends by its loss."""

from collections.abc import Sequence
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.ending import Ending, Trend, parse_ending


def ended_after(ending: Ending, losses: Sequence[float]) -> int | None:
    """The number of epochs after which a training with these mean losses is over."""
    trend = Trend()
    for epoch, loss in enumerate(losses, 1):
        trend = ending.after(trend, loss)
        if ending.is_met(trend, loss):
            return epoch
    return None


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("loss < 0.1", Ending(bound=0.1)),
        ("loss<1e-3", Ending(bound=0.001)),
        ("converged 0.5%", Ending(decrease=0.005)),
        ("converged 0.005", Ending(decrease=0.005)),
        ("converged 1% for 5 epochs", Ending(decrease=0.01, patience=5)),
        ("converged 1% over 1 epoch", Ending(decrease=0.01, patience=1)),
        ("loss < 0.1 or converged 0.5%", Ending(0.1, 0.005)),
        ("converged 0.5% or loss < 0.1", Ending(0.1, 0.005)),
        ("loss < 0.1 or loss < 0.2", Ending(bound=0.2)),
    ],
)
def test_an_ending_is_read_as_written_and_writes_itself(text: str, ending: Ending) -> None:
    assert parse_ending(text) == ending == parse_ending(str(ending))


@pytest.mark.parametrize(
    "text",
    [
        "", "loss", "loss > 1", "loss < much", "loss < nan", "converged", "converged 0%",
        "converged 200%", "converged 1% for 0 epochs", "converged 1% or converged 2%",
        "loss < 1 or loss < 2 or loss < 3", "accuracy > 0.9",
    ],
)  # fmt: skip
def test_what_is_no_ending_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match=r"write|converged once"):
        parse_ending(text)


def test_a_loss_below_the_bound_ends_it() -> None:
    assert ended_after(Ending(bound=0.1), [1.0, 0.5, 0.1, 0.09]) == 4


def test_epochs_in_a_row_that_gain_less_than_the_threshold_end_it() -> None:
    losses = [1.0, 0.5, 0.496, 0.494, 0.4, 0.399, 0.398, 0.397]
    assert ended_after(Ending(decrease=0.005), losses) == 8
    assert ended_after(Ending(decrease=0.005, patience=2), losses) == 4


def test_either_of_two_conditions_ends_it() -> None:
    both = Ending(bound=0.45) | Ending(decrease=0.005)
    assert ended_after(both, [1.0, 0.5, 0.4]) == 3
    assert ended_after(both, [1.0, 0.5, 0.5, 0.5, 0.5]) == 5


def test_a_schedule_that_starts_again_is_no_convergence() -> None:
    falling = [1.0, 0.6, 0.4, 0.3]
    again = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.29, 0.25]
    assert ended_after(Ending(decrease=0.005), falling + again) is None


def test_a_slow_start_is_no_convergence() -> None:
    slow = [1.0, 0.995, 0.989, 0.982, 0.974, 0.965, 0.954]
    assert ended_after(Ending(decrease=0.01), slow) is None
    assert ended_after(Ending(decrease=0.01), [*slow, 0.7, 0.5, 0.495, 0.492, 0.491]) == 12


def test_a_loss_that_is_no_number_or_rises_is_no_convergence() -> None:
    ending = Ending(decrease=0.005)
    assert ended_after(ending, [1.0, 0.5, nan, nan, nan, inf, inf, inf]) is None
    assert ended_after(ending, [1.0, 0.5, 0.8, 1.6, 3.2, 6.4]) is None


def test_conditions_without_brackets_are_refused() -> None:
    with pytest.raises(TypeError, match="in brackets"):
        0.1 | Ending(decrease=0.005)


@given(st.lists(st.floats(0.01, 10.0), min_size=1, max_size=60), st.floats(0.001, 0.2))
def test_the_unit_of_the_loss_does_not_matter(losses: list[float], decrease: float) -> None:
    ending = Ending(decrease=decrease)
    assert ended_after(ending, losses) == ended_after(ending, [each * 1024 for each in losses])


@given(st.floats(0.01, 10.0), st.floats(0.001, 0.2), st.integers(1, 10))
def test_a_loss_that_stands_still_always_ends_it(level: float, decrease: float, patience: int) -> None:
    assert ended_after(Ending(decrease=decrease, patience=patience), [level] * 20) == patience + 1
