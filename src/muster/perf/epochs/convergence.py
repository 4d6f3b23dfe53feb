"""Epochs left until a job has converged, predicted from the losses it has reported.

Source: Optimus (Peng et al., EuroSys 2018): a job has converged once its fitted loss falls by less
than its owner's threshold in each of several epochs. The curve and its fit are in `loss_curve.py`.
The interval's constants were tuned on recorded curves that no reported figure uses
(docs/explanation/convergence.md).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite, sqrt
from statistics import median

import numpy as np
from numpy.typing import NDArray

from muster.ending import Ending, Trend
from muster.perf.epochs.decay_curve import DecayCurve, fit_decays
from muster.perf.epochs.firing import ends
from muster.perf.epochs.loss_curve import (
    LEAST_POINTS,
    TINY,
    Floats,
    LossCurve,
    LossPoint,
    Series,
    fit,
    prepare,
    recent_noise,
    smooth,
    thin,
    windows,
)
from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown

BOUNDLESS = 1e100
"""A loss above this has diverged; NaN is not below it either."""
BARELY = 0.05
"""Training has only begun while the loss has fallen by less than this share and does not slow down."""
SUDDEN = 3.0
"""A drop: two epochs lower the loss by this many times what two epochs did before, ..."""
CLEAR = 5.0
"""... move the level by this many standard errors of the noise, ..."""
LEAST_DROP = 0.005
"""... and by this share of the largest loss, ..."""
SETTLED = 8
"""... against this many points before it."""
LEVELS_APART = 4.5
"""Epochs from the middle of the four points before a drop to the middle of the three after it."""
FAR_AHEAD = 10.0
"""Times the epochs so far: a curve does not say when an end that is farther ahead is reached."""
LIKELY = (0.1, 0.5, 0.9)
"""Quantiles of simulated ends: the outermost are there by chance."""
LATEST = 3
"""Points whose mean is where the loss is."""
INDEPENDENT = 0.1
"""Of the points of a fit: those that tell by themselves which form fits better."""
RISE = 0.05
"""The loss is rising if it lies this share of the largest loss above its best."""


class NoteCode(StrEnum):
    """How a record departs from the curve."""

    DROP = "drop"
    PLATEAU = "plateau"
    RISING = "rising"
    SLOW_START = "slow_start"
    NOT_A_NUMBER = "not_a_number"
    OUTLIERS = "outliers"


@dataclass(frozen=True, slots=True)
class LossNote:
    """An observation: a code for programs, a sentence for people."""

    code: NoteCode
    sentence: str


@dataclass(frozen=True, slots=True)
class Target:
    """Converged: the fitted loss falls by less than `decrease` of the first loss in each of `epochs`
    epochs, or is below `below`, or `most` epochs have passed."""

    decrease: float | None = 0.01
    epochs: int = 3
    most: float | None = None
    below: float | None = None
    ending: Ending | None = None
    """The rule, where it is judged by each epoch's own mean, noise included; None: by the curve."""

    def __post_init__(self) -> None:
        fine = self.decrease is None or 0 < self.decrease < 1
        if not (fine and self.epochs >= 1 and (self.most is None or self.most >= 0)):
            raise ValueError(f"not a target: {self}")

    @staticmethod
    def of(ending: Ending, most: float | None = None) -> "Target":
        """Return the target of a training that ends by its loss, after `most` epochs at the latest."""
        return Target(ending.decrease, ending.patience, most, ending.bound, ending)

    def end_of(self, curve: LossCurve | DecayCurve, noise: float, first: float) -> float:
        """Return the epoch after which a training with this curve ends; `noise`: of one epoch's loss,
        `first`: the first epoch's.

        The first loss below a bound is one that is low by chance, by about its standard deviation."""
        ends = []
        if self.decrease is not None:
            share = self.decrease * first / curve.scale
            ends.append(curve.slow_from(max(share, TINY)) + self.epochs - 1)
        if self.below is not None:
            ends.append(curve.below_from(self.below + noise))
        return min(ends)


@dataclass(frozen=True, slots=True)
class FixedEpochs:
    """A fixed number of epochs, whatever the loss does."""

    total: int


class TrainingStage(StrEnum):
    """How far a training is by its own prediction: errors of early and late ones differ."""

    SLOW_START = "slow_start"
    EARLY = "early"
    MIDDLE = "middle"
    LATE = "late"


ENDS = {
    TrainingStage.SLOW_START: (-1.22, -0.50, 0.07),
    TrainingStage.EARLY: (-1.22, 0.0, 0.56),
    TrainingStage.MIDDLE: (-0.49, 0.0, 0.64),
    TrainingStage.LATE: (-0.19, 0.0, 1.21),
}
"""Low end of the 80 % interval, correction and high end, in units of the doubt, from
`benchmarks/perf_convergence.py --calibrate`. Only a slow start is corrected: the formula is
steepest at its start, so it does not hold yet and usually predicts too long."""
SIMULATED_ENDS = {
    TrainingStage.SLOW_START: (-0.95, -0.28, 0.82),
    TrainingStage.EARLY: (-1.08, -0.33, 0.43),
    TrainingStage.MIDDLE: (-0.43, 0.0, 0.98),
    TrainingStage.LATE: (-0.19, 0.0, 0.91),
}
"""The same where the rule is simulated. What seems early in its way is usually nearer to its end."""
SOON = 0.10
"""Correction of a convergence that is past that, in units of the doubt: it usually seems nearer than it
is. The median of the tuning curves."""
EARLY_UNTIL, LATE_FROM = 0.25, 0.75
"""Shares of the predicted total."""


@dataclass(frozen=True, slots=True)
class EpochForecast:
    """The fit's answer, before it becomes an estimate."""

    curve: LossCurve
    left: float
    """Epochs: the median of the windows' answers."""
    doubt: float
    """Epochs: the unit of the interval's ends."""
    stage: TrainingStage
    simulated: bool = False
    soon: float = 0.0
    """Added to the correction of its stage."""

    def estimate(self) -> Estimate:
        """Return the epochs left, with the interval of this stage."""
        ends = (SIMULATED_ENDS if self.simulated else ENDS)[self.stage]
        low, mid, high = (
            max(self.left + end * self.doubt, 0.0) for end in (ends[0], ends[1] + self.soon, ends[2])
        )
        return Estimate(mid, low, high)


@dataclass(frozen=True, slots=True)
class Remaining:
    """Epochs left, notes, and the forecast behind it (none for a fixed number)."""

    epochs: Estimate
    notes: tuple[LossNote, ...] = ()
    forecast: EpochForecast | None = None


def remaining(
    points: Sequence[LossPoint], target: Target | FixedEpochs, trend: Trend | None = None
) -> Remaining | Unknown:
    """Return the epochs left after the last point; points are in the order of their epochs.

    `trend`: of all epochs so far under the target's rule, if the points are not all of them."""
    if isinstance(target, FixedEpochs):
        left = max(target.total - (points[-1].epoch if points else 0.0), 0.0)
        return Remaining(Estimate(left, left, left))
    epochs = np.array([point.epoch for point in points])
    losses = np.array([point.loss for point in points])
    if (np.diff(epochs) <= 0).any():
        raise BadMeasurementError("epochs must rise from one loss to the next")
    known = np.abs(losses) < BOUNDLESS
    return _unusable(epochs, losses, known) or _predict(
        prepare(epochs[known], losses[known]),
        target,
        _lost(epochs[~known]),
        trend or _trend(points, target),
    )


def _trend(points: Sequence[LossPoint], target: Target) -> Trend:
    """Return what the target's rule knows after these epochs; of a curve's, only the first loss."""
    trend = Trend()
    if target.ending is None:
        return Trend(next((point.loss for point in points if isfinite(point.loss)), 0.0))
    for point in points:
        trend = target.ending.after(trend, point.loss)
    return trend


def _unusable(epochs: Floats, losses: Floats, known: NDArray[np.bool_]) -> Unknown | None:
    """Return why these losses cannot be fitted, None if they can."""
    if len(known) and not known[-1]:
        since = epochs[len(known) - known[::-1].argmax() if known.any() else 0]
        return Unknown(WhyUnknown.NOT_A_NUMBER, f"the loss is not a number since epoch {since:g}")
    if (count := int(known.sum())) < LEAST_POINTS:
        return Unknown(WhyUnknown.TOO_FEW_POINTS, f"{count} losses so far; {LEAST_POINTS} are needed")
    if losses[known].min() < 0:
        return Unknown(WhyUnknown.NOT_CONVERGING, "losses below 0 cannot be fitted")
    return None


def _predict(
    whole: Series, target: Target, notes: tuple[LossNote, ...], trend: Trend
) -> Remaining | Unknown:
    """Fit what follows the last drop and the steepest epoch, and collect notes."""
    if not whole.losses.any():
        return Unknown(WhyUnknown.NOT_CONVERGING, "the loss has been 0 from the start")
    rise = _rise(whole)
    if isinstance(rise, Unknown):
        return rise
    drop = _last_drop(whole)
    part = thin(whole.since(drop))
    if len(part.epochs) < LEAST_POINTS:
        detail = f"{len(part.epochs)} points since the loss dropped at epoch {part.epochs[0]:g}"
        return Unknown(WhyUnknown.TOO_FEW_POINTS, f"{detail}; {LEAST_POINTS} are needed")
    # The curve is steepest at its start, so it begins where the loss falls fastest.
    steepest = int(_falls(part).argmax())
    if not drop and _only_begun(part, steepest):
        fallen = 1 - float(smooth(part.losses).min())
        return Unknown(WhyUnknown.NOT_CONVERGING, f"the loss has fallen by {fallen:.1%} only so far")
    slow_start = not drop and steepest >= max(len(part.epochs) - LEAST_POINTS, 1)
    fitted = part.since(min(steepest, len(part.epochs) - LEAST_POINTS))
    now = float(whole.epochs[-1])
    forecast = _forecast(fitted, target, trend, slow_start=slow_start)
    if target.decrease is None and target.most is None and forecast.left >= FAR_AHEAD * now:
        level = forecast.curve.scale * forecast.curve.b2
        detail = f"the loss levels off at {level:.4g}, by what it has shown so far"
        return Unknown(WhyUnknown.NOT_CONVERGING, detail)
    notes += _notes(whole, drop, slow_start=slow_start) + rise
    return Remaining(_at_most(forecast.estimate(), target, now), notes, forecast)


def _forecast(part: Series, target: Target, trend: Trend, *, slow_start: bool) -> EpochForecast:
    """Return the median of the ends that are possible. The doubt grows with the distance and with their
    disagreement, and is at least the epochs over which convergence is judged."""
    now = float(part.epochs[-1])
    rule = target.ending
    far = inf if target.decrease is not None and rule is None else FAR_AHEAD * now
    curves = fit(part)
    plain = np.array(
        [target.end_of(each, part.noise * part.scale, abs(trend.first)) for each in curves]
    )
    middle = curves[int(plain.argsort()[len(plain) // 2])]
    if rule is None:
        low, left, high = sorted(np.clip(plain - now, 0.0, far).tolist())
        doubt = left / 2 + high - low + target.epochs
    else:
        found, weights = _simulated(part, curves, rule, trend)
        low, left, high = _quantiles(np.clip(found - now, 0.0, far), weights)
        doubt = left / 2 + (high - low) / 2 + target.epochs
    stage = TrainingStage.SLOW_START if slow_start else _stage(now / (now + left))
    past = stage in (TrainingStage.MIDDLE, TrainingStage.LATE)
    soon = SOON if past and rule is not None and rule.decrease is not None else 0.0
    return EpochForecast(middle, left, doubt, stage, simulated=rule is not None, soon=soon)


def _simulated(
    part: Series, curves: Sequence[LossCurve], ending: Ending, trend: Trend
) -> tuple[Floats, Floats]:
    """Return the epochs after which the training may end by its rule, and the weight of each: one for
    each continuation of both forms' curves."""
    both: tuple[LossCurve | DecayCurve, ...] = (*curves, *fit_decays(part))
    fitted = [curve.losses(np.maximum(part.epochs, curve.since)) / part.scale for curve in both]
    misfits, weights = _weights_by_fit(part, fitted)
    noise = recent_noise(part, fitted[int(misfits.argmin())]) * part.scale
    target, first = Target.of(ending), abs(trend.first)
    plain = np.array([target.end_of(curve, noise, first) for curve in both])
    # One that levels off above a bound says so of its form: another may fit as well and reach it.
    likely = [i for i, end in enumerate(plain.tolist()) if end < inf] or [*range(len(both))]
    # Each continues where the loss is: one that begins above the best would seem flat at once.
    shifts = [part.scale * float((part.losses - each)[-LATEST:].mean()) for each in fitted]
    if ending.decrease is None:
        shifts = [0.0] * len(both)
    kept = [(both[i], shifts[i]) for i in likely]
    found = ends(kept, noise, float(part.epochs[-1]), ending, trend, plain[likely])
    return found.ravel(), np.repeat(weights[likely], found.shape[1])


def _weights_by_fit(part: Series, fitted: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Return the misfit of each curve, and how likely it is beside the other form's of its window.

    Bayes' weight of a form is misfit^(-n/2) for n independent points. Misfits of a curve are not
    independent from epoch to epoch: n is taken as a part of the points. Nothing fits better than noise.
    """
    _, places, _, _ = windows(part)
    windowed = np.concatenate((places, places))
    squares = (np.stack(fitted) - part.losses) ** 2
    misfits: Floats = (windowed * squares).sum(-1) / windowed.sum(-1)
    counts = INDEPENDENT * (windowed > 0).sum(-1)
    least = part.noise**2 / 2 + TINY
    forms = (-counts / 2 * np.log(np.maximum(misfits, least))).reshape(2, -1)
    likely = np.exp(forms - forms.max(0))
    found: Floats = (likely / likely.sum(0)).ravel()
    return misfits, found


def _quantiles(values: Floats, weights: Floats) -> tuple[float, ...]:
    """Return the quantiles of weighted values."""
    order = values.argsort()
    passed = weights[order].cumsum() / weights.sum()
    at = np.minimum(passed.searchsorted(LIKELY), len(values) - 1)
    return tuple(values[order][at].tolist())


def _stage(share: float) -> TrainingStage:
    if share < EARLY_UNTIL:
        return TrainingStage.EARLY
    return TrainingStage.MIDDLE if share < LATE_FROM else TrainingStage.LATE


def _at_most(left: Estimate, target: Target, now: float) -> Estimate:
    if target.most is None:
        return left
    bound = max(target.most - float(now), 0.0)
    return Estimate(min(left.mean, bound), min(left.low, bound), min(left.high, bound))


def _falls(series: Series) -> Floats:
    """Return how much each epoch lowers the smoothed loss."""
    falls: Floats = -np.diff(smooth(series.losses)) / np.diff(series.epochs)
    return falls


def _only_begun(series: Series, steepest: int) -> bool:
    """Return whether the loss has barely fallen and does not slow down yet."""
    falls = _falls(series)
    barely = 1 - smooth(series.losses).min() < BARELY
    return bool(barely and falls[-max(len(falls) // 3, 1) :].mean() >= falls[steepest] / 2)


def _last_drop(series: Series) -> int:
    """Return the point of the last sudden fall, as after a drop of the learning rate; else 0."""
    falls = series.losses[:-2] - series.losses[2:]  # over two: the change may begin within the first
    steepest_about = (falls[1:-1] >= falls[:-2]) & (falls[1:-1] >= falls[2:])
    candidates = np.flatnonzero(steepest_about & (falls[1:-1] > max(LEAST_DROP, series.noise))) + 1
    last = len(series.losses) - LEAST_POINTS
    found = (
        at for at in candidates[::-1].tolist() if SETTLED < at <= last and _is_sudden(series, falls, at)
    )
    return next((at + 1 for at in found), 0)


def _is_sudden(series: Series, falls: Floats, at: int) -> bool:
    """Return whether the fall from a point to the next but one follows slow ones (which were faster
    once: the end of a slow start is no drop), is clear of the noise, and lasts."""
    fall, earlier = falls[at], falls[: at - 1]
    usual = max(median(earlier[-SETTLED:].tolist()), 0.0)
    if SUDDEN * usual > min(fall, earlier.max()):
        return False
    before, after = series.losses[at - 3 : at + 1], series.losses[at + 2 : at + LEAST_POINTS]
    step = before.mean() - after.mean() - (LEVELS_APART / 2) * usual
    lasts = before[-1] - after.max() > fall / 2 > after[0] - after[-1]
    return bool(lasts and step > CLEAR * sqrt(1 / len(before) + 1 / len(after)) * series.noise)


def _rise(series: Series) -> tuple[LossNote, ...] | Unknown:
    """Return a note if the loss rises; Unknown if half of the progress is undone, or the last three
    losses are above all others."""
    level = smooth(series.losses)
    best = int(level.argmin())
    latest = float(series.losses[-3:].min())
    rise = latest - float(level[best])
    low, high = float(level[best]) * series.scale, latest * series.scale
    said = f"the loss has risen from {low:.4g} at epoch {series.epochs[best]:g} to {high:.4g}"
    if latest > (1 + RISE) * series.losses[:-3].max():
        return Unknown(WhyUnknown.NOT_CONVERGING, said)
    if rise <= max(RISE, CLEAR * series.noise):
        return ()
    if rise > (float(level[0]) - float(level[best])) / 2:
        return Unknown(WhyUnknown.NOT_CONVERGING, said)
    return (LossNote(NoteCode.RISING, said),)


def _lost(epochs: Floats) -> tuple[LossNote, ...]:
    if not len(epochs):
        return ()
    return (LossNote(NoteCode.NOT_A_NUMBER, f"ignored: no number at {_named(epochs.tolist())}"),)


def _notes(series: Series, drop: int, *, slow_start: bool) -> tuple[LossNote, ...]:
    notes: list[LossNote] = []
    if series.outliers:
        notes.append(LossNote(NoteCode.OUTLIERS, f"replaced: outliers at {_named(series.outliers)}"))
    if drop:
        at = f"the loss fell suddenly at epoch {series.epochs[drop]:g}"
        notes.append(LossNote(NoteCode.DROP, f"{at}; the curve is fitted from there"))
    if slow_start:
        notes.append(LossNote(NoteCode.SLOW_START, "the loss does not level off yet"))
    if _is_flat(series):
        notes.append(LossNote(NoteCode.PLATEAU, "the loss no longer falls by more than its noise"))
    return tuple(notes)


def _named(epochs: Sequence[float]) -> str:
    """Name the first epochs, count the others."""
    listed = ", ".join(f"{epoch:g}" for epoch in epochs[:5])
    more = f" and {len(epochs) - 5} more" if len(epochs) > 5 else ""
    return f"epoch{'s' if len(epochs) > 1 else ''} {listed}{more}"


def _is_flat(series: Series) -> bool:
    """Return whether the last third of the points fell by at most twice such a difference's error."""
    half = max(len(series.losses) // 6, 3)
    before, after = series.losses[-2 * half : -half], series.losses[-half:]
    fall = float(before.mean() - after.mean())
    return fall <= 2 * series.noise * sqrt(2 / half)
