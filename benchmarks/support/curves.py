"""Recorded loss curves, when each of them really converged, and what Optimus' published code says."""

import csv
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import isfinite
from pathlib import Path

import numpy as np
from scipy.optimize import curve_fit

from muster.ending import Ending, Trend
from muster.perf.epochs.convergence import Target
from muster.perf.epochs.loss_curve import Floats, LossCurve, LossPoint

CURVES = Path(__file__).parents[2] / "examples" / "training" / "curves"
DECREASES = (0.005, 0.002, 0.001)
"""Thresholds at which the recorded curves converge within their records."""
LEAST_TRUTH = 25
"""Epochs: of a shorter training, a fifth is too few points for any fit."""
PATIENCES = (3, 5)
"""Flat epochs in a row, of endings."""
BOUNDS = (0.3, 0.1, 0.03)
"""Bounds of endings: the part that is left of the way from the first loss to the least."""
PUBLISHED_MOST = 100
"""Epochs: the published code never predicts more in all."""
GIVEN_UP = 20
"""Epochs more that the published code assumes where its fit fails."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded curve."""

    name: str
    points: tuple[LossPoint, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """A curve, a target, and the epoch at which the record met that target."""

    curve: Recorded
    target: Target
    truth: int

    def seen(self, share: float) -> tuple[LossPoint, ...]:
        """The points of the first part of the way."""
        return self.curve.points[: round(share * self.truth)]


def load(folder: Path = CURVES) -> list[Recorded]:
    """Every curve of a folder, by name."""
    return [Recorded(path.stem, _points(path)) for path in sorted(folder.glob("*.csv"))]


def _points(path: Path) -> tuple[LossPoint, ...]:
    with path.open(newline="") as file:
        return tuple(LossPoint(float(row["epoch"]), float(row["loss"])) for row in csv.DictReader(file))


def cases(curves: list[Recorded]) -> Iterator[Case]:
    """Each curve with each threshold that it meets within its record, but not too early to be asked."""
    for curve in curves:
        if not all(isfinite(point.loss) for point in curve.points):
            continue
        for decrease in DECREASES:
            target = Target(decrease)
            truth = converged(curve, target)
            if truth is not None and truth >= LEAST_TRUTH:
                yield Case(curve, target, truth)


def judged_cases(curves: list[Recorded]) -> Iterator[Case]:
    """Each curve with each ending that would have ended it, judged by each recorded loss as it is."""
    for curve in curves:
        losses = [point.loss for point in curve.points]
        if not all(isfinite(loss) for loss in losses):
            continue
        for ending in _endings(losses[0], min(losses)):
            truth = _ended(losses, ending)
            if truth is not None and truth >= LEAST_TRUTH:
                yield Case(curve, Target.of(ending), truth)


def _endings(first: float, least: float) -> Iterator[Ending]:
    for decrease, patience in product(DECREASES, PATIENCES):
        yield Ending(decrease=decrease, patience=patience)
    for part in BOUNDS:
        yield Ending(bound=least + part * (first - least))


def _ended(losses: list[float], ending: Ending) -> int | None:
    """The epoch after which a training with these losses ends, if it does."""
    trend = Trend()
    for epoch, loss in enumerate(losses, 1):
        trend = ending.after(trend, loss)
        if ending.is_met(trend, loss):
            return epoch
    return None


def converged(curve: Recorded, target: Target) -> int | None:
    """The epoch at which the recorded loss met the target, if it did.

    The loss is smoothed (running median of three, then running mean of five, both centred, shorter at
    the ends) and divided by the largest recorded one. Converged is the last of the first `epochs`
    epochs in a row that each lowered it by less than `decrease`, counted from the steepest epoch on: a
    slow start is not convergence."""
    losses = np.array([point.loss for point in curve.points])
    smoothed = _running(_running(losses, 1, np.median), 2, np.mean)
    falls = -np.diff(smoothed) / losses.max()
    row = 0
    for at in range(int(falls.argmax()), len(falls)):
        row = row + 1 if falls[at] < target.decrease else 0
        if row == target.epochs:
            return at + 2  # the fall at index i is made by epoch i + 2
    return None


def _running(losses: Floats, reach: int, of: Callable[[Floats], np.floating]) -> Floats:
    last = len(losses) - 1
    reaches = [min(reach, at, last - at) for at in range(len(losses))]
    return np.array([of(losses[at - r : at + r + 1]) for at, r in enumerate(reaches)])


def published_total(points: tuple[LossPoint, ...], target: Target) -> float:
    """The epoch of convergence by Optimus' published code (its `scheduler/estimator.py`): bounded
    non-linear least squares, the thirds of the curve weighing 1, 4 and 16, no outlier step, at most 100
    epochs in all, no interval."""
    epochs = np.array([point.epoch for point in points])
    losses = np.array([point.loss for point in points])
    third = len(points) // 3
    weights = np.ones(len(points))
    weights[third : 2 * third], weights[2 * third :] = 4, 16
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (b0, b1, b2), _ = curve_fit(
                lambda k, b0, b1, b2: 1 / (b0 * k + b1) + b2,
                epochs,
                losses / losses.max(),
                sigma=weights**-0.5,
                bounds=(0, np.inf),
            )
    except (RuntimeError, ValueError):
        return float(epochs[-1] + GIVEN_UP)
    curve = LossCurve(float(b0), float(b1), float(b2), float(losses.max()), 0.0)
    assert target.decrease is not None
    total = min(curve.slow_from(target.decrease) + target.epochs - 1, PUBLISHED_MOST)
    return float(max(total, epochs[-1]))
