"""A placed job's step time, learnt from a handful of its own steps.

The form is step_form's; its nine unknowns start from one prior for every job, so that eight samples
are enough and one already gives an answer with a wide interval. A sample is a measured step and, where
the job measures it, the part spent synchronising: step - sync is then a second measurement, of
computing.

Two effects outside the form have factors of their own, each with its own spread: e^u on computing for
each batch (kernels chosen by size) and e^v on synchronising for each placement (its links and
neighbours). So a second sample of one placement teaches less than a first one of another.

Fit: the most probable unknowns (maximum a posteriori, Gauss-Newton); intervals from the curvature there
(Laplace), scaled by the residuals.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown
from muster.perf.speed.foresight import Foresight
from muster.perf.speed.gauss_newton import CLOSE, Evaluate, solve
from muster.perf.speed.plain_form import (
    PlainSetting,
    PlainSlopes,
    PlainTimes,
    plain_slopes,
    plain_times,
)
from muster.perf.speed.step_form import (
    BELIEFS,
    Arrays,
    Belief,
    Reference,
    StepSetting,
    Times,
    in_units_of,
    times,
)

Array = NDArray[np.float64]

NORMAL_80 = 1.2816
"""Standard deviations on either side that hold 80 % of a normal distribution."""

HALF_LIFE = 64
"""Samples after which an older one counts half: profiling runs still count when a job has just started,
and no longer when it has reported for an hour (one sample a minute)."""

KEPT = 8
"""Newest samples kept of each setting: a long run in one place must not displace the others."""

ROUNDS = 3
"""Times that the spread is taken from the residuals and the fit repeated; it settles by then."""

ROUGHLY = 1e-2
"""How closely the rounds before the last are solved: only the spread is taken from them."""

MANY = 8
"""Samples from which on arrays are as fast as plain numbers."""

STEPS = 100
"""Most evaluations of one fit. Measured jobs need 10-40; samples that contradict each other by
orders of magnitude would take hundreds, for an interval as wide."""


@dataclass(frozen=True, slots=True)
class PlacedSample:
    """A measured step: where, how long, and how much of it was synchronising (None: not measured)."""

    setting: StepSetting
    seconds: float
    sync: float | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.seconds) and self.seconds > 0):
            raise BadMeasurementError(f"a step cannot take {self.seconds} s")
        if self.sync is not None and not 0 <= self.sync < self.seconds:
            raise BadMeasurementError(f"impossible: {self.sync} s of a {self.seconds} s step is sync")
        if self.setting.batch < 1 or not self.setting.shape or min(self.setting.shape) < 1:
            raise BadMeasurementError(f"no step without devices and a batch: {self.setting}")

    @property
    def computing(self) -> float:
        """Seconds not spent synchronising; the whole step where that was not measured."""
        return self.seconds - (self.sync or 0.0)


@dataclass(frozen=True, slots=True)
class Spread:
    """Relative standard deviations of what is outside the form."""

    step: float = 0.06
    """Of one measured step."""
    computing: float = 0.08
    """Of step - sync; wider, because computing slows down a little while gradients travel."""
    placement: float = 0.15
    """Of synchronising, from placement to placement: networks differ by more than nodes do."""
    batch: float = 0.05
    """Of computing, from batch to batch."""

    @property
    def factors(self) -> Array:
        """Of the two factors of a setting: batch, placement."""
        return np.array([self.batch, self.placement])

    def scaled(self, factor: float) -> "Spread":
        every = (self.step, self.computing, self.placement, self.batch)
        return Spread(*(factor * each for each in every))


@dataclass(frozen=True, slots=True)
class Prior:
    """The belief before the first sample: of any job, and what its own model foretells."""

    beliefs: tuple[Belief, ...] = BELIEFS
    spread: Spread = Spread()
    spread_weight: float = 8.0
    """Measurements that the prior spread is worth."""
    foresight: Foresight | None = None
    """What the shape of the model says; None: unknown."""
    smallest: float = 0.0
    """Samples on a device in the smallest step that the job may have, which a, c and net are in units
    of; 0: in units of any batch asked for."""

    def at(self, batch: float, measured: float | None = None) -> "Prior":
        """Return the belief in units of a step of this batch, foresight included; `measured`: its s."""
        if self.foresight is None and self.smallest in (0.0, batch):
            return self if not self.smallest else replace(self, smallest=0.0)
        beliefs = in_units_of(self.beliefs, batch / self.smallest) if self.smallest else self.beliefs
        if self.foresight is not None:
            beliefs = self.foresight.refine(beliefs, batch, measured)
        return replace(self, beliefs=beliefs, foresight=None, smallest=0.0)

    @property
    def middles(self) -> Array:
        return np.array([belief.middle for belief in self.beliefs])

    @property
    def deviations(self) -> Array:
        return np.array([belief.deviation for belief in self.beliefs])


PRIOR = Prior()


_Key = tuple[str, int | tuple[int, ...]]


def _keys(setting: StepSetting) -> tuple[_Key, _Key]:
    """Return the keys of a setting's two factors: of computing, of synchronising."""
    return ("batch", setting.batch), ("placement", setting.shape)


@dataclass(frozen=True)
class _Columns:
    """The column of each unknown: the form's first, then every factor.

    All are in units of their prior standard deviation, so that the prior is the unit matrix."""

    prior: Prior
    spread: Spread
    factors: dict[_Key, int]

    @staticmethod
    def of(prior: Prior, spread: Spread, settings: Iterable[StepSetting]) -> "_Columns":
        keys = dict.fromkeys(key for setting in settings for key in _keys(setting))
        return _Columns(prior, spread, {key: len(prior.beliefs) + i for i, key in enumerate(keys)})

    def with_those_of(self, settings: Iterable[StepSetting]) -> "_Columns":
        """Return the same columns in front of those of further settings."""
        keys = (key for setting in settings for key in _keys(setting))
        new = dict.fromkeys(key for key in keys if key not in self.factors)
        if not new:
            return self
        further = {key: self.count + i for i, key in enumerate(new)}
        return _Columns(self.prior, self.spread, self.factors | further)

    @property
    def count(self) -> int:
        return len(self.prior.beliefs) + len(self.factors)

    # Once for a fit, which evaluates the form dozens of times.

    @cached_property
    def _middles(self) -> Array:
        return self.prior.middles

    @cached_property
    def deviations(self) -> Array:
        return self.prior.deviations

    @cached_property
    def _factors(self) -> Array:
        return self.spread.factors

    def at(self, settings: Sequence[StepSetting]) -> NDArray[np.intp]:
        """Return the columns of the two factors of each setting, shape (settings, 2)."""
        return np.array([[self.factors[key] for key in _keys(setting)] for setting in settings])

    def times(self, x: Array, arrays: Arrays, at: NDArray[np.intp], unit: Reference) -> Times:
        """Return the form's times, scaled by the factors at these columns."""
        batch, placement = (x[at] * self._factors).T
        return times(self.unknowns(x), arrays, unit, batch, placement)

    def unknowns(self, x: Array) -> Array:
        """Return the form's unknowns in its own units."""
        return self._middles + self.deviations * x[: len(self.prior.beliefs)]

    def jacobian(self, found: Times, at: NDArray[np.intp]) -> Array:
        """Return the derivatives of (log step, log computing), shape (settings, 2, unknowns)."""
        by = np.zeros((len(at), 2, self.count))
        self.enter(by, found, at)
        return by

    def enter(self, by: Array, found: Times, at: NDArray[np.intp]) -> None:
        """Write the same into zeros of that shape."""
        known = len(self.prior.beliefs)
        by[:, 0, :known] = found.step_by * self.deviations
        by[:, 1, :known] = found.compute_by * self.deviations
        rows = np.arange(len(at))
        by[rows, 0, at[:, 0]] = found.by_compute * self.spread.batch
        by[rows, 0, at[:, 1]] = found.by_sync * self.spread.placement
        by[rows, 1, at[:, 0]] = self.spread.batch


@dataclass(frozen=True, slots=True, eq=False)
class FittedSpeed:
    """A job's learnt step time, for any placement and batch."""

    samples: tuple[PlacedSample, ...]
    """Oldest first."""
    unit: Reference
    columns: _Columns
    found: Array
    """(m,): the most probable unknowns, in prior standard deviations."""
    covariance: Array

    @property
    def unknowns(self) -> Array:
        """(9,): the most probable unknowns of the form, in its own units."""
        prior = self.columns.prior
        return np.asarray(prior.middles + prior.deviations * self.found[: len(prior.beliefs)])

    def seconds(self, setting: StepSetting) -> Estimate:
        """Predict one step there, with the 80 % interval of a measured step, s."""
        return self.all_seconds((setting,))[0]

    def all_seconds(self, settings: Sequence[StepSetting]) -> list[Estimate]:
        """Predict one step at each setting, s."""
        logs, by, covariance = self.around(settings)
        variance = (
            np.einsum("ij,jk,ik->i", by[:, 0], covariance, by[:, 0]) + self.columns.spread.step**2
        )
        factors = np.exp(NORMAL_80 * np.sqrt(variance))
        return [
            Estimate(float(m), float(m / f), float(m * f))
            for m, f in zip(np.exp(logs), factors, strict=True)
        ]

    def around(self, settings: Sequence[StepSetting]) -> tuple[Array, Array, Array]:
        """Return log step times, their derivatives and the covariance, also where nothing was seen."""
        columns = self.columns.with_those_of(settings)
        known, x, covariance = len(self.found), self.found, self.covariance
        if columns is not self.columns:  # factors of which nothing was seen are as the prior has them
            x, covariance = np.zeros(columns.count), np.eye(columns.count)
            x[:known], covariance[:known, :known] = self.found, self.covariance
        at = columns.at(settings)
        found = columns.times(x, Arrays.of(settings), at, self.unit)
        return found.step, columns.jacobian(found, at), covariance


def fit_placed(samples: Sequence[PlacedSample], prior: Prior = PRIOR) -> FittedSpeed | Unknown:
    """Learn a job's step time from its samples, oldest first."""
    if not samples:
        return Unknown(WhyUnknown.TOO_FEW_POINTS, "no step of this job was measured yet")
    kept = _newest(samples)
    if len(kept) == 1 and kept[0].sync is None:
        return _fit_one(kept[0], prior)
    return _fit_all(kept, prior)


def _fit_one(sample: PlacedSample, prior: Prior) -> FittedSpeed:
    """Learn from a single step, which tells the unit and nothing of the form but by its shape.

    Seconds and batches enter as ratios to the unit's, so all first steps of a shape have one fit: of a
    rigid job it is all there ever is to fit.
    """
    setting = sample.setting
    prior = prior.at(setting.batch, sample.seconds)
    alike = _fit_shape(setting.shape, prior)
    columns = _Columns.of(prior, alike.columns.spread, [setting])
    unit = Reference(sample.seconds, setting.batch)
    return FittedSpeed((sample,), unit, columns, alike.found, alike.covariance)


@lru_cache(maxsize=1024)
def _fit_shape(shape: tuple[int, ...], prior: Prior) -> FittedSpeed:
    return _fit_all((PlacedSample(StepSetting(shape, 1), 1.0),), prior)


def _fit_all(kept: tuple[PlacedSample, ...], prior: Prior) -> FittedSpeed:
    smallest = min(kept, key=lambda s: (s.setting.devices, s.setting.batch))
    unit = Reference(smallest.computing, smallest.setting.batch)
    prior = prior.at(unit.batch, unit.seconds)
    usual = _Columns.of(prior, prior.spread, [sample.setting for sample in kept])
    seen = _Measured.of(kept, usual)
    fit = _most_probable(seen, unit, usual, None, ROUGHLY)
    for i in range(ROUNDS):
        spread = prior.spread.scaled(_scale(fit, prior))
        close = CLOSE if i == ROUNDS - 1 else ROUGHLY
        fit = _most_probable(seen, unit, replace(usual, spread=spread), fit.x, close)
    covariance = np.asarray(np.linalg.inv(fit.jacobian.T @ fit.jacobian), dtype=np.float64)
    return FittedSpeed(kept, unit, fit.columns, fit.x, covariance)


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """The most probable unknowns under one spread."""

    columns: _Columns
    x: Array
    residuals: Array
    """Of the measurements, over their noise."""
    jacobian: Array
    """(measurements + m, m): of the residuals, the prior's among them."""


@dataclass(frozen=True, slots=True, eq=False)
class _Measured:
    """Samples as a fit needs them, whatever the spread."""

    arrays: Arrays
    at: NDArray[np.intp]
    """(n, 2): the columns of each sample's factors."""
    logs: Array
    """(n, 2): of step and computing."""
    recent: Array
    """(n,): the root of each sample's weight."""
    synced: Array
    """(n,): 1 where synchronising was measured, else 0."""

    @staticmethod
    def of(samples: Sequence[PlacedSample], columns: _Columns) -> "_Measured":
        settings = [sample.setting for sample in samples]
        return _Measured(
            Arrays.of(settings),
            columns.at(settings),
            np.log([(sample.seconds, sample.computing) for sample in samples]),
            np.sqrt(recency(len(samples))),
            np.array([0.0 if sample.sync is None else 1.0 for sample in samples]),
        )

    def weights(self, spread: Spread) -> Array:
        """Return one over the noise of (step, computing), shape (samples, 2); 0: not measured."""
        computing = self.recent * (self.synced / spread.computing)
        return np.stack([self.recent / spread.step, computing], axis=1)


def _newest(samples: Sequence[PlacedSample]) -> tuple[PlacedSample, ...]:
    """Return the newest samples of each setting, in their order."""
    seen: Counter[StepSetting] = Counter()
    kept = []
    for sample in reversed(samples):
        seen[sample.setting] += 1
        if seen[sample.setting] <= KEPT:
            kept.append(sample)
    return tuple(reversed(kept))


def _most_probable(
    seen: _Measured, unit: Reference, columns: _Columns, start: Array | None, close: float
) -> _Fit:
    """Solve least squares over the measurements and the prior."""
    few = len(seen.at) < MANY
    evaluate = (_evaluate_few if few else _evaluate)(seen, unit, columns)
    solved = solve(evaluate, np.zeros(columns.count) if start is None else start, STEPS, close)
    return _Fit(columns, solved.x, solved.residuals[: seen.logs.size], solved.jacobian)


def _evaluate(seen: _Measured, unit: Reference, columns: _Columns) -> Evaluate:
    """Return the residuals of measurements and prior, and their derivatives, by the unknowns."""
    arrays, at, measured = seen.arrays, seen.at, seen.logs
    weights = seen.weights(columns.spread)
    size, count = measured.size, columns.count
    whole = _prior_only(size, count)

    def evaluate(x: Array) -> tuple[Array, Callable[[], Array]]:
        found = columns.times(x, arrays, at, unit)
        off = np.empty(size + count)
        rows = off[:size].reshape(-1, 2)
        rows[:, 0], rows[:, 1] = found.step, found.compute
        rows -= measured
        rows *= weights
        off[size:] = x
        return off, lambda: derive(found)

    def derive(found: Times) -> Array:
        by = whole.copy()
        inner = by[:size].reshape(-1, 2, count)
        columns.enter(inner, found, at)
        inner *= weights[:, :, None]
        return by

    return evaluate


def _evaluate_few(seen: _Measured, unit: Reference, columns: _Columns) -> Evaluate:
    """Return the same for a handful of samples: equal to the digit, in three fifths of the time."""
    settings, at = PlainSetting.all_of(seen.arrays), seen.at.tolist()
    measured, weights = seen.logs.tolist(), seen.weights(columns.spread).tolist()
    deviations, spread = columns.deviations.tolist(), columns.spread
    size, blank = seen.logs.size, [0.0] * columns.count
    whole = _prior_only(size, columns.count)

    def rows(found: PlainSlopes, i: int) -> tuple[list[float], list[float]]:
        (batch, placement), (of_step, of_computing) = at[i], weights[i]
        step, computing = blank.copy(), blank.copy()
        for k, by in enumerate(found.step_by):
            step[k] = by * deviations[k] * of_step
        for k, by in enumerate(found.compute_by):
            computing[k] = by * deviations[k] * of_computing
        step[batch] = found.by_compute * spread.batch * of_step
        step[placement] = found.by_sync * spread.placement * of_step
        computing[batch] = spread.batch * of_computing
        return step, computing

    def evaluate(x: Array) -> tuple[Array, Callable[[], Array]]:
        plain: list[float] = x.tolist()
        batch = [plain[column] * spread.batch for column, _ in at]
        placement = [plain[column] * spread.placement for _, column in at]
        found = plain_times(columns.unknowns(x), settings, unit, batch, placement)
        off: list[float] = []
        for *logs, known, weight in zip(found.step, found.compute, measured, weights, strict=True):
            off += (logs[0] - known[0]) * weight[0], (logs[1] - known[1]) * weight[1]
        return np.array(off + plain), lambda: derive(found)

    def derive(found: PlainTimes) -> Array:
        by = whole.copy()
        by[:size] = [row for i, each in enumerate(plain_slopes(found)) for row in rows(each, i)]
        return by

    return evaluate


def _prior_only(size: int, count: int) -> Array:
    """Return the derivatives without those of `size` measurements."""
    whole = np.zeros((size + count, count))
    whole[size:] = np.eye(count)
    return whole


def recency(count: int) -> Array:
    """Return the weight of each of `count` samples, oldest first; the newest weighs 1."""
    return np.asarray(0.5 ** (np.arange(count)[::-1] / HALF_LIFE), dtype=np.float64)


def _scale(fit: _Fit, prior: Prior) -> float:
    """Return the spread shown by the residuals over the usual one, pulled towards 1."""
    known, measurements = len(prior.beliefs), np.count_nonzero(fit.residuals)
    factors = fit.x[known:]
    now = fit.columns.spread.step / prior.spread.step
    seen = now**2 * float(fit.residuals @ fit.residuals + factors @ factors)
    # The prior decides about half of the unknowns; the others use up one measurement each.
    freedom = max(measurements - known / 2, 1.0)
    return sqrt((prior.spread_weight + seen) / (prior.spread_weight + freedom))
