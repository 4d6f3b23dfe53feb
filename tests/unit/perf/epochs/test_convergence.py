"""Remaining epochs: small curves worked out by the formula, and curves recorded from real training."""

import csv
from collections.abc import Sequence
from math import inf, nan
from pathlib import Path

import pytest

from muster.perf.epochs.convergence import (
    FixedEpochs,
    NoteCode,
    Remaining,
    Target,
    TrainingStage,
    remaining,
)
from muster.perf.epochs.loss_curve import LossPoint
from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown

CURVES = Path(__file__).parents[4] / "examples" / "training" / "curves"
TARGET = Target(decrease=0.002, epochs=3)


def points(losses: Sequence[float]) -> list[LossPoint]:
    return [LossPoint(float(epoch), loss) for epoch, loss in enumerate(losses, start=1)]


def formula(count: int, b0: float = 0.1, b1: float = 0.8, b2: float = 0.2) -> list[float]:
    return [1 / (b0 * k + b1) + b2 for k in range(1, count + 1)]


def recorded(name: str, count: int | None = None) -> list[LossPoint]:
    with (CURVES / f"{name}.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))[:count]
    return [LossPoint(float(row["epoch"]), float(row["loss"])) for row in rows]


def converges_at(losses: Sequence[float], target: Target) -> int:
    """The first epoch after as many slow ones as the target asks for, counted one by one."""
    row = 0
    assert target.decrease is not None
    for epoch in range(2, len(losses) + 1):
        slow = losses[epoch - 2] - losses[epoch - 1] < target.decrease * max(losses)
        row = row + 1 if slow else 0
        if row == target.epochs:
            return epoch
    raise AssertionError("never converges")


def answer(given: Sequence[LossPoint], target: Target = TARGET) -> Remaining:
    found = remaining(given, target)
    assert isinstance(found, Remaining), found
    return found


def refusal(given: Sequence[LossPoint]) -> Unknown:
    found = remaining(given, TARGET)
    assert isinstance(found, Unknown), found
    return found


def codes(found: Remaining) -> set[NoteCode]:
    return {note.code for note in found.notes}


@pytest.mark.parametrize("seen", [10, 20, 40])
@pytest.mark.parametrize("b1", [0.4, 0.8, 2.0])
def test_a_curve_of_the_formula_is_continued_to_its_end(seen: int, b1: float) -> None:
    whole = formula(500, b1=b1)
    found = answer(points(whole[:seen]))
    assert seen + found.epochs.mean == pytest.approx(converges_at(whole, TARGET), abs=1)
    assert found.forecast is not None
    assert found.forecast.curve.loss(100) == pytest.approx(whole[99], rel=0.01)


def test_the_curve_is_given_in_the_unit_of_the_loss() -> None:
    found = answer(points([1000 * loss for loss in formula(30)]))
    assert found.forecast is not None
    assert found.forecast.curve.loss(60) == pytest.approx(1000 * formula(60)[-1], rel=0.01)


def test_a_stricter_threshold_takes_longer() -> None:
    seen = recorded("logistic-cancer-sgd", 20)
    loose, strict = answer(seen, Target(0.01)), answer(seen, Target(0.001))
    assert loose.epochs.mean < strict.epochs.mean


def test_the_owners_own_number_of_epochs_is_exact() -> None:
    found = remaining(points(formula(12)), FixedEpochs(90))
    assert found == Remaining(Estimate(78.0, 78.0, 78.0))


def test_a_fixed_number_needs_no_losses() -> None:
    assert remaining([], FixedEpochs(90)) == Remaining(Estimate(90.0, 90.0, 90.0))


def test_a_fixed_number_that_has_passed_leaves_nothing() -> None:
    assert remaining(points([nan] * 12), FixedEpochs(10)) == Remaining(Estimate(0.0, 0.0, 0.0))


def test_the_owners_limit_bounds_the_answer() -> None:
    found = answer(points(formula(10)), Target(0.0001, most=15))
    assert found.epochs == Estimate(5.0, 5.0, 5.0)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_few_losses_are_no_answer(count: int) -> None:
    found = refusal(points(formula(count)))
    assert (found.why, found.detail) == (
        WhyUnknown.TOO_FEW_POINTS,
        f"{count} losses so far; 5 are needed",
    )


@pytest.mark.parametrize("lost", [nan, inf, -inf])
def test_a_loss_that_ended_as_no_number_is_said_with_its_epoch(lost: float) -> None:
    found = refusal(points([*formula(10), lost, lost]))
    assert (found.why, found.detail) == (
        WhyUnknown.NOT_A_NUMBER,
        "the loss is not a number since epoch 11",
    )


def test_losses_that_never_were_numbers_are_said() -> None:
    assert refusal(points([nan] * 8)).detail == "the loss is not a number since epoch 1"


def test_a_passing_nan_is_left_out_and_named() -> None:
    losses = formula(30)
    losses[11] = nan
    found = answer(points(losses))
    assert found.epochs.mean == pytest.approx(answer(points(formula(30))).epochs.mean, abs=1)
    assert [note.sentence for note in found.notes] == ["ignored: no number at epoch 12"]


def test_an_outlier_is_replaced_named_and_moves_the_answer_little() -> None:
    losses = formula(30)
    losses[14] *= 20
    found = answer(points(losses))
    assert found.epochs.mean == pytest.approx(answer(points(formula(30))).epochs.mean, abs=2)
    assert [note.sentence for note in found.notes] == ["replaced: outliers at epoch 15"]


@pytest.mark.parametrize("name, epoch", [("lstm-text-steps", 61), ("mlp-noisy-digits-steps", 51)])
def test_a_recorded_drop_of_the_learning_rate_is_noticed(name: str, epoch: int) -> None:
    found = answer(recorded(name, epoch + 9))
    said = f"the loss fell suddenly at epoch {epoch}; the curve is fitted from there"
    assert said in [note.sentence for note in found.notes]
    assert found.forecast is not None and found.forecast.curve.since >= epoch


def test_just_after_a_drop_there_are_too_few_points() -> None:
    found = refusal(recorded("lstm-text-steps", 64))
    assert found.why is WhyUnknown.TOO_FEW_POINTS
    assert found.detail == "4 points since the loss dropped at epoch 61; 5 are needed"


@pytest.mark.parametrize(
    "name", ["logistic-cancer-sgd", "mlp-wine-sgd", "cnn-digits-adam", "lstm-text-adam"]
)
def test_a_training_without_drops_shows_none(name: str) -> None:
    whole = recorded(name)
    for count in range(10, len(whole)):
        found = remaining(whole[:count], TARGET)
        assert isinstance(found, Unknown) or NoteCode.DROP not in codes(found)


def test_a_training_that_is_stuck_is_called_a_plateau() -> None:
    found = answer(recorded("mlp-digits-stuck"))
    assert NoteCode.PLATEAU in codes(found)
    assert found.epochs.mean == 0


def test_a_training_that_diverges_is_refused_before_and_after_its_losses_are_lost() -> None:
    assert refusal(recorded("linear-diabetes-diverges", 8)).why is WhyUnknown.NOT_CONVERGING
    assert refusal(recorded("linear-diabetes-diverges")).why is WhyUnknown.NOT_A_NUMBER


def test_a_loss_that_turns_upwards_is_said() -> None:
    found = answer(points([*formula(30), 0.60, 0.62, 0.65]))
    assert NoteCode.RISING in codes(found)


def test_a_loss_back_near_its_start_is_not_converging() -> None:
    found = refusal(points([*formula(30), 0.9, 1.0, 1.1]))
    assert found.why is WhyUnknown.NOT_CONVERGING
    assert found.detail.startswith("the loss has risen from")


def test_a_loss_that_has_hardly_moved_is_no_answer() -> None:
    found = refusal(recorded("mlp-digits-steps", 10))
    assert found.why is WhyUnknown.NOT_CONVERGING
    assert found.detail == "the loss has fallen by 2.9% only so far"


def test_a_slow_start_is_said() -> None:
    found = answer(recorded("mlp-wine-sgd", 12))
    assert NoteCode.SLOW_START in codes(found)
    assert found.forecast is not None and found.forecast.stage is TrainingStage.SLOW_START


@pytest.mark.parametrize("losses", [[0.0] * 10, [-1.0 - k for k in range(10)]])
def test_losses_outside_the_formula_are_not_converging(losses: list[float]) -> None:
    assert refusal(points(losses)).why is WhyUnknown.NOT_CONVERGING


def test_predicted_remaining_falls_as_a_recorded_training_goes_on() -> None:
    whole = recorded("logistic-cancer-sgd")
    lefts = [answer(whole[:count]).epochs.mean for count in (10, 20, 30, 40)]
    assert lefts == sorted(lefts, reverse=True)


@pytest.mark.parametrize("epoch", [-1.0, nan, inf])
def test_an_epoch_that_cannot_be_is_refused(epoch: float) -> None:
    with pytest.raises(BadMeasurementError):
        LossPoint(epoch, 1.0)


def test_epochs_out_of_order_are_refused() -> None:
    with pytest.raises(BadMeasurementError):
        remaining(points(formula(10))[::-1], TARGET)


@pytest.mark.parametrize("wrong", [{"decrease": 0.0}, {"decrease": 1.0}, {"epochs": 0}, {"most": -1}])
def test_a_target_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="not a target"):
        Target(**wrong)  # type: ignore[arg-type]
