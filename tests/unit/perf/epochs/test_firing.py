"""When an ending is met, simulated: against the rule itself, one epoch after the other."""

from math import exp

import numpy as np
import pytest

from muster.ending import Ending, Trend
from muster.perf.epochs.convergence import Remaining, Target, remaining
from muster.perf.epochs.decay_curve import DecayCurve, fit_decays
from muster.perf.epochs.firing import AHEAD, NOISE, PATHS, ends
from muster.perf.epochs.loss_curve import LossCurve, LossPoint, prepare

DECAY = DecayCurve(0.8, 0.1, 0.2, 2.0, 1.0)
POWER = LossCurve(0.1, 1.0, 0.2, 2.0, 1.0)
SEEN = 10


def trend_of(ending: Ending, curve: DecayCurve | LossCurve) -> Trend:
    trend = Trend()
    for loss in curve.losses(np.arange(1.0, SEEN + 1)).tolist():
        trend = ending.after(trend, loss)
    return trend


def ended(ending: Ending, trend: Trend, losses: list[float]) -> int:
    """Epochs until the rule ends a training."""
    for epoch, loss in enumerate(losses, 1):
        trend = ending.after(trend, loss)
        if ending.is_met(trend, loss):
            return epoch
    raise AssertionError(f"{ending} is not met")


@pytest.mark.parametrize("curve", [DECAY, POWER])
@pytest.mark.parametrize("noise", [0.0, 0.002, 0.02])
@pytest.mark.parametrize(
    "ending",
    [Ending(decrease=0.005), Ending(decrease=0.002, patience=6), Ending(0.7), Ending(0.6, 0.01, 2)],
)
def test_simulated_ends_are_those_of_the_rule(
    curve: DecayCurve | LossCurve, noise: float, ending: Ending
) -> None:
    trend = trend_of(ending, curve)
    found = ends([(curve, 0.0)], noise, SEEN, ending, trend, np.array([1e9]))
    for path in range(PATHS):
        losses = curve.losses(SEEN + 1 + np.arange(AHEAD, dtype=np.float64)) + noise * NOISE[0, path]
        assert found[0, path] == SEEN + ended(ending, trend, losses.tolist())


def test_beyond_what_is_simulated_the_curves_own_end_holds() -> None:
    ending = Ending(bound=0.1)
    found = ends([(DECAY, 0.0)], 0.0, SEEN, ending, trend_of(ending, DECAY), np.array([5000.0]))
    assert set(found.ravel().tolist()) == {5000.0}


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.5])
def test_an_exponential_loss_is_fitted(rate: float) -> None:
    epochs = np.arange(1.0, 31.0)
    series = prepare(epochs, 3.0 * np.exp(-rate * epochs) + 1.0)
    for curve in fit_decays(series):
        assert curve.losses(np.array([40.0]))[0] == pytest.approx(3 * exp(-40 * rate) + 1, rel=0.02)


def test_closed_forms_of_a_decay_agree_with_its_losses() -> None:
    falls = -np.diff(DECAY.losses(np.arange(1.0, 200.0))) / DECAY.scale
    assert DECAY.slow_from(0.005) == 2 + int((falls < 0.005).argmax())
    at = DECAY.below_from(0.6)
    assert DECAY.losses(np.array([at]))[0] == pytest.approx(0.6)
    assert DECAY.below_from(0.3) == float("inf")


def test_a_training_that_levels_off_ends_sooner_than_the_power_law_says() -> None:
    """An exponential loss with a little noise, seen to its half: both forms together come close."""
    ending, noise = Ending(decrease=0.002), np.random.default_rng(1).standard_normal(200)
    losses = (2.0 * np.exp(-0.08 * np.arange(200)) + 0.5 + 0.002 * noise).tolist()
    whole = ended(ending, Trend(), losses)
    seen = [LossPoint(float(epoch), loss) for epoch, loss in enumerate(losses[: whole // 2], 1)]
    both, power = remaining(seen, Target.of(ending)), remaining(seen, Target(0.002))
    assert isinstance(both, Remaining) and isinstance(power, Remaining)
    assert abs(whole // 2 + both.epochs.mean - whole) <= 0.25 * whole
    assert both.epochs.mean < power.epochs.mean
