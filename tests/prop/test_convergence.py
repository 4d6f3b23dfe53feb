"""What holds for the epochs left, whatever the losses."""

from itertools import pairwise
from math import inf, nan

from hypothesis import assume, given
from hypothesis import strategies as st

from muster.perf.epochs.convergence import Remaining, Target, remaining
from muster.perf.epochs.loss_curve import LossPoint
from muster.perf.estimate import Unknown

TARGET = Target(0.002)
losses = st.floats(0, 1e6) | st.sampled_from([0.0, 1.0, nan, inf, 1e-300, 1e90, 1e200])
records = st.lists(losses, max_size=80)
wholes = st.builds(
    lambda b0, b1, b2: [1 / (b0 * k + b1) + b2 for k in range(1, 401)],
    st.floats(0.02, 1.0),
    st.floats(0.1, 2.0),
    st.floats(0.0, 1.0),
)
formulas = st.builds(lambda whole, count: whole[:count], wholes, st.integers(10, 60))


def points(given: list[float]) -> list[LossPoint]:
    return [LossPoint(float(epoch), loss) for epoch, loss in enumerate(given, start=1)]


@given(records)
def test_every_record_gets_an_ordered_interval_or_a_reason(record: list[float]) -> None:
    found = remaining(points(record), TARGET)
    if isinstance(found, Unknown):
        assert found.detail
    else:
        assert 0 <= found.epochs.low <= found.epochs.mean <= found.epochs.high


@given(records)
def test_fewer_than_five_numbers_are_never_an_answer(record: list[float]) -> None:
    assume(sum(loss < 1e100 for loss in record) < 5)
    assert isinstance(remaining(points(record), TARGET), Unknown)


@given(formulas, st.integers(-30, 30))
def test_the_unit_of_the_loss_does_not_matter(record: list[float], power: int) -> None:
    """By powers of two, which scale floats exactly."""
    scaled = remaining(points([loss * 2.0**power for loss in record]), TARGET)
    found = remaining(points(record), TARGET)
    if isinstance(found, Remaining) and isinstance(scaled, Remaining):
        assert found.epochs == scaled.epochs
    else:
        assert found == scaled


@given(formulas, st.integers(2, 7))
def test_a_spike_hardly_moves_the_answer(record: list[float], place: int) -> None:
    """Not at the ends, where a spike cannot be told from a change yet."""
    found = remaining(points(record), TARGET)
    assume(isinstance(found, Remaining))
    spiked = record.copy()
    spiked[-place - 1] += 5 * max(record)
    after = remaining(points(spiked), TARGET)
    assert isinstance(found, Remaining) and isinstance(after, Remaining)
    assert abs(after.epochs.mean - found.epochs.mean) <= 2 + 0.2 * (len(record) + found.epochs.mean)


@given(wholes, st.integers(10, 60))
def test_a_curve_of_the_formula_is_continued_to_its_end(whole: list[float], count: int) -> None:
    falls = [(before - after) / max(whole) for before, after in pairwise(whole)]
    assert TARGET.decrease is not None
    slow = next(at + 2 for at, fall in enumerate(falls) if fall < TARGET.decrease)
    found = remaining(points(whole[:count]), TARGET)
    if isinstance(found, Remaining):
        left = max(slow + TARGET.epochs - 1 - count, 0)
        assert abs(found.epochs.mean - left) <= 1 + 0.05 * left
        assert found.epochs.low - 1 <= left <= found.epochs.high + 1
