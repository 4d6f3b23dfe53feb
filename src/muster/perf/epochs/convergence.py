"""How many epochs are left until a job has converged, told from the losses it has reported.

Source: Optimus (Peng et al., EuroSys 2018): a job has converged once its fitted loss falls by less
than its owner's threshold in each of several epochs. The curve and its fit are in `loss_curve.py`.
The interval's constants were learnt on recorded curves that no figure is reported for
(docs/explanation/convergence.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import sqrt
from statistics import median

import numpy as np
from numpy.typing import NDArray

from muster.perf.epochs.loss_curve import (
    LEAST_POINTS,
    Floats,
    LossCurve,
    LossPoint,
    Series,
    fit,
    prepare,
    smooth,
    thin,
)
from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, Why

BOUNDLESS = 1e100
"""A loss beyond this has left all bounds; NaN is not below it either."""
BARELY = 0.05
"""A loss that has fallen by less than this share, and does not fall more slowly yet, has only begun."""
SUDDEN = 3.0
"""A drop: two epochs that lower the loss by so many times what two epochs did before, ..."""
CLEAR = 5.0
"""... that moves the level by so many standard errors of the noise, ..."""
LEAST_DROP = 0.005
"""... and by this share of the largest loss, ..."""
SETTLED = 8
"""... measured against so many points before it."""
LEVELS_APART = 4.5
"""Epochs from the middle of the four points before a drop to the middle of the three after it."""
RISE = 0.05
"""A loss that lies so much of the largest one above its best is rising."""


class NoteCode(StrEnum):
    """How a record departs from the curve."""

    DROP = "drop"
    PLATEAU = "plateau"
    RISING = "rising"
    SLOW_START = "slow_start"
    NOT_A_NUMBER = "not_a_number"
    OUTLIERS = "outliers"


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was noticed: a code for programs, a sentence for people."""

    code: NoteCode
    sentence: str


@dataclass(frozen=True, slots=True)
class Target:
    """Converged: in each of `epochs` epochs the fitted loss falls by less than `decrease`, as a share
    of the largest loss; or `most` epochs have passed."""

    decrease: float = 0.01
    epochs: int = 3
    most: int | None = None

    def __post_init__(self) -> None:
        if not (0 < self.decrease < 1 and self.epochs >= 1 and (self.most is None or self.most >= 0)):
            raise ValueError(f"not a target: {self}")


@dataclass(frozen=True, slots=True)
class FixedEpochs:
    """The owner's own number of epochs, whatever the loss does."""

    total: int


class Stage(StrEnum):
    """How far a training is by its own prediction: early ones err more, and other than late ones."""

    SLOW_START = "slow_start"
    EARLY = "early"
    MIDDLE = "middle"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Ends:
    """A prediction's correction and the ends of its 80 % interval, in units of its doubt."""

    low: float
    mid: float
    high: float


ENDS = {
    Stage.SLOW_START: Ends(-1.22, -0.50, 0.07),
    Stage.EARLY: Ends(-1.22, 0.0, 0.56),
    Stage.MIDDLE: Ends(-0.49, 0.0, 0.64),
    Stage.LATE: Ends(-0.19, 0.0, 1.21),
}
"""From `benchmarks/perf_convergence.py --calibrate`. Only a slow start is corrected: there the formula,
which is steepest at its start, does not hold yet, and what it says is too long as a rule."""
EARLY_UNTIL, LATE_FROM = 0.25, 0.75
"""Shares of the predicted total."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the fit says, before it becomes an estimate."""

    curve: LossCurve
    left: float
    """Epochs: the median of the windows' answers."""
    doubt: float
    """Epochs: the unit of the interval's ends."""
    stage: Stage

    def estimate(self) -> Estimate:
        """Epochs left, with the interval of this stage."""
        ends = ENDS[self.stage]
        low, mid, high = (
            max(self.left + end * self.doubt, 0.0) for end in (ends.low, ends.mid, ends.high)
        )
        return Estimate(mid, low, high)


@dataclass(frozen=True, slots=True)
class Remaining:
    """Epochs left, what was noticed, and the forecast behind it (none for a fixed number)."""

    epochs: Estimate
    notes: tuple[Note, ...] = ()
    forecast: Forecast | None = None


def remaining(points: Sequence[LossPoint], target: Target | FixedEpochs) -> Remaining | Unknown:
    """How many epochs are left after the last point. Points stand in the order of their epochs."""
    if isinstance(target, FixedEpochs):
        left = max(target.total - (points[-1].epoch if points else 0.0), 0.0)
        return Remaining(Estimate(left, left, left))
    epochs = np.array([point.epoch for point in points])
    losses = np.array([point.loss for point in points])
    if (np.diff(epochs) <= 0).any():
        raise BadMeasurementError("epochs must rise from one loss to the next")
    known = np.abs(losses) < BOUNDLESS
    return _unusable(epochs, losses, known) or _predict(
        prepare(epochs[known], losses[known]), target, _lost(epochs[~known])
    )


def _unusable(epochs: Floats, losses: Floats, known: NDArray[np.bool_]) -> Unknown | None:
    """Why these losses cannot be fitted at all."""
    if len(known) and not known[-1]:
        since = epochs[len(known) - known[::-1].argmax() if known.any() else 0]
        return Unknown(Why.NOT_A_NUMBER, f"the loss is not a number since epoch {since:g}")
    if (count := int(known.sum())) < LEAST_POINTS:
        return Unknown(Why.TOO_FEW_POINTS, f"{count} losses so far; {LEAST_POINTS} are needed")
    if losses[known].min() < 0:
        return Unknown(Why.NOT_CONVERGING, "the curve needs losses that are never below 0")
    return None


def _predict(whole: Series, target: Target, notes: tuple[Note, ...]) -> Remaining | Unknown:
    """Fit what follows the last drop and the steepest epoch, and say what was noticed on the way."""
    if not whole.losses.any():
        return Unknown(Why.NOT_CONVERGING, "the loss has been 0 from the start")
    rise = _rise(whole)
    if isinstance(rise, Unknown):
        return rise
    drop = _last_drop(whole)
    part = thin(whole.since(drop))
    if len(part.epochs) < LEAST_POINTS:
        detail = f"{len(part.epochs)} points since the loss dropped at epoch {part.epochs[0]:g}"
        return Unknown(Why.TOO_FEW_POINTS, f"{detail}; {LEAST_POINTS} are needed")
    steepest = _steepest(part)
    if not drop and _only_begun(part, steepest):
        fallen = 1 - float(smooth(part.losses).min())
        return Unknown(Why.NOT_CONVERGING, f"the loss has fallen by {fallen:.1%} only so far")
    slow_start = not drop and steepest >= max(len(part.epochs) - LEAST_POINTS, 1)
    fitted = part.since(min(steepest, len(part.epochs) - LEAST_POINTS))
    forecast = _forecast(fitted, target, slow_start=slow_start)
    notes += _notes(whole, drop, slow_start=slow_start) + rise
    return Remaining(_at_most(forecast.estimate(), target, whole.epochs[-1]), notes, forecast)


def _forecast(part: Series, target: Target, *, slow_start: bool) -> Forecast:
    """The median of the windows' answers. The doubt grows with how far ahead that lies and with how far
    the windows disagree, and is never below the epochs over which convergence is judged."""
    now = float(part.epochs[-1])
    curves = sorted(fit(part), key=lambda curve: curve.slow_from(target.decrease))
    lefts = [max(curve.slow_from(target.decrease) + target.epochs - 1 - now, 0.0) for curve in curves]
    middle = len(lefts) // 2
    left = lefts[middle]
    doubt = left / 2 + lefts[-1] - lefts[0] + target.epochs
    stage = Stage.SLOW_START if slow_start else _stage(now / (now + left))
    return Forecast(curves[middle], left, doubt, stage)


def _stage(share: float) -> Stage:
    if share < EARLY_UNTIL:
        return Stage.EARLY
    return Stage.MIDDLE if share < LATE_FROM else Stage.LATE


def _at_most(left: Estimate, target: Target, now: float) -> Estimate:
    if target.most is None:
        return left
    bound = max(target.most - float(now), 0.0)
    return Estimate(min(left.mean, bound), min(left.low, bound), min(left.high, bound))


def _falls(series: Series) -> Floats:
    """How much each epoch lowers the smoothed loss."""
    falls: Floats = -np.diff(smooth(series.losses)) / np.diff(series.epochs)
    return falls


def _steepest(series: Series) -> int:
    """Where the loss falls fastest: the formula's curve is steepest at its start, so a slow start
    before that place is no part of it."""
    return int(_falls(series).argmax())


def _only_begun(series: Series, steepest: int) -> bool:
    """Whether the loss has barely fallen and does not slow down yet: nothing tells where it will go."""
    falls = _falls(series)
    barely = 1 - smooth(series.losses).min() < BARELY
    return bool(barely and falls[-max(len(falls) // 3, 1) :].mean() >= falls[steepest] / 2)


def _last_drop(series: Series) -> int:
    """The point at which the loss last fell suddenly, as after a drop of the learning rate; else 0."""
    falls = series.losses[:-2] - series.losses[2:]  # over two: the change may begin within the first
    steepest_about = (falls[1:-1] >= falls[:-2]) & (falls[1:-1] >= falls[2:])
    candidates = np.flatnonzero(steepest_about & (falls[1:-1] > max(LEAST_DROP, series.noise))) + 1
    last = len(series.losses) - LEAST_POINTS
    found = (
        at for at in candidates[::-1].tolist() if SETTLED < at <= last and _is_sudden(series, falls, at)
    )
    return next((at + 1 for at in found), 0)


def _is_sudden(series: Series, falls: Floats, at: int) -> bool:
    """Whether the fall from a point to the next but one follows slow ones (slower than once: the end of
    a slow start is no drop), is clear of the noise, and lasts."""
    fall, earlier = falls[at], falls[: at - 1]
    usual = max(median(earlier[-SETTLED:].tolist()), 0.0)
    if SUDDEN * usual > min(fall, earlier.max()):
        return False
    before, after = series.losses[at - 3 : at + 1], series.losses[at + 2 : at + LEAST_POINTS]
    step = before.mean() - after.mean() - (LEVELS_APART / 2) * usual
    lasts = before[-1] - after.max() > fall / 2 > after[0] - after[-1]
    return bool(lasts and step > CLEAR * sqrt(1 / len(before) + 1 / len(after)) * series.noise)


def _rise(series: Series) -> tuple[Note, ...] | Unknown:
    """A note where the loss has turned upwards; no answer where half of the progress is undone, or
    where the last three losses are above all others."""
    level = smooth(series.losses)
    best = int(level.argmin())
    latest = float(series.losses[-3:].min())
    rise = latest - float(level[best])
    low, high = float(level[best]) * series.scale, latest * series.scale
    said = f"the loss has risen from {low:.4g} at epoch {series.epochs[best]:g} to {high:.4g}"
    if latest > (1 + RISE) * series.losses[:-3].max():
        return Unknown(Why.NOT_CONVERGING, said)
    if rise <= max(RISE, CLEAR * series.noise):
        return ()
    if rise > (float(level[0]) - float(level[best])) / 2:
        return Unknown(Why.NOT_CONVERGING, said)
    return (Note(NoteCode.RISING, said),)


def _lost(epochs: Floats) -> tuple[Note, ...]:
    if not len(epochs):
        return ()
    return (Note(NoteCode.NOT_A_NUMBER, f"left out: no number at {_named(epochs.tolist())}"),)


def _notes(series: Series, drop: int, *, slow_start: bool) -> tuple[Note, ...]:
    notes: list[Note] = []
    if series.outliers:
        notes.append(Note(NoteCode.OUTLIERS, f"replaced: outliers at {_named(series.outliers)}"))
    if drop:
        at = f"the loss fell suddenly at epoch {series.epochs[drop]:g}"
        notes.append(Note(NoteCode.DROP, f"{at}; the curve is fitted from there"))
    if slow_start:
        notes.append(Note(NoteCode.SLOW_START, "the loss does not fall more slowly yet"))
    if _is_flat(series):
        notes.append(Note(NoteCode.PLATEAU, "the loss no longer falls by more than its noise"))
    return tuple(notes)


def _named(epochs: Sequence[float]) -> str:
    """The first epochs by number, the others by count."""
    listed = ", ".join(f"{epoch:g}" for epoch in epochs[:5])
    more = f" and {len(epochs) - 5} more" if len(epochs) > 5 else ""
    return f"epoch{'s' if len(epochs) > 1 else ''} {listed}{more}"


def _is_flat(series: Series) -> bool:
    """Whether the last third of the points fell by no more than twice such a difference's error."""
    half = max(len(series.losses) // 6, 3)
    before, after = series.losses[-2 * half : -half], series.losses[-half:]
    fall = float(before.mean() - after.mean())
    return fall <= 2 * series.noise * sqrt(2 / half)
