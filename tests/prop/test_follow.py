"""What holds for a training followed by its losses, whatever it reports."""

from math import inf, nan

from hypothesis import given
from hypothesis import strategies as st

from muster.ending import Ending, Trend
from muster.perf.epochs.convergence import Target
from muster.perf.epochs.follow import LossFollower

ENDING = Ending(decrease=0.005)
MOST = 400
curves = st.builds(
    lambda b0, b2: [1 / (b0 * k + 1) + b2 for k in range(MOST)],
    st.floats(0.05, 0.5),
    st.floats(0.0, 0.5),
)
lies = st.sampled_from([10.0, 0.1, nan, inf, 0.0])
losses = st.floats(-10, 1e9) | lies


def truth(record: list[float]) -> int:
    """The epochs after which a training with these losses ends."""
    trend = Trend()
    for epoch, loss in enumerate(record, 1):
        trend = ENDING.after(trend, loss)
        if ENDING.is_met(trend, loss):
            return epoch
    return len(record)


@given(st.lists(st.tuples(st.integers(0, 30), losses), max_size=120))
def test_whatever_is_reported_what_is_left_is_between_nothing_and_the_most(
    reports: list[tuple[int, float]],
) -> None:
    """Epochs may go back, as after a restart, or be left out."""
    follower = LossFollower()
    follower.aim(Target.of(ENDING, MOST))
    for epoch, loss in reports:
        follower.note(epoch, loss)
        left = follower.left(epoch)
        assert left is not None
        assert 0 <= left.epochs.low <= left.epochs.mean <= left.epochs.high <= MOST
        assert 0 <= left.spread < 1.2


@given(curves, lies, st.integers(1, 8), st.integers(1, 4))
def test_losses_that_lie_mislead_for_a_few_epochs_only(
    curve: list[float], lie: float, begin: int, length: int
) -> None:
    """By a factor of ten or no number at all; back within a quarter once as many honest epochs as came
    before, and eight, have followed."""
    record = [lie * x if begin <= at < begin + length else x for at, x in enumerate(curve)]
    whole, follower = truth(record), LossFollower()
    follower.aim(Target.of(ENDING))
    for epoch, loss in enumerate(record[:whole]):
        follower.note(epoch, loss)
        if epoch >= 2 * (begin + length) + 8:
            left = follower.left(epoch)
            assert left is not None
            assert abs(epoch + left.epochs.mean - whole) <= max(0.25 * whole, 3)


@given(st.floats(0.1, 10.0))
def test_a_job_that_always_seems_nearly_done_is_believed_less_and_less(level: float) -> None:
    """Its loss levels off just above the bound that would end it."""
    follower = LossFollower()
    follower.aim(Target.of(Ending(bound=level), MOST))
    told = []
    for epoch in range(120):
        follower.note(epoch, level * (1.001 + 1 / (epoch + 1) ** 2))
        left = follower.left(epoch)
        told.append(left.epochs.mean if left else 0.0)
    assert told[-1] >= 10
