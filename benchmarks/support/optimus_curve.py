"""Optimus' speed curves for parameter servers, learnt from a handful of samples.

Source: Peng et al., Optimus (seed 004), section 3.2. p servers, w workers, M samples in a global step;
seconds of a step, every t >= 0:

    synchronous    T = t0 M/w + t1 + t2 w/p + t3 w + t4 p       speed 1/T [steps/s]
    asynchronous   T = (t0 + t1 w/p + t2 w + t3 p) / w          speed 1/T [steps/s of all workers]

T is linear in t, so t is found by non-negative least squares on *relative* errors: what disturbs a step
(jitter, neighbours, clocks) stretches it by a factor, and what is asked later are ratios of speeds; by
absolute errors the slowest setting alone would decide. Older samples count less (`recency`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown
from muster.perf.speed.fitted import NORMAL_80, recency
from muster.sim.worlds.curves import CurveKind

Array = NDArray[np.float64]

USUAL_SPREAD = 0.05
"""Relative standard deviation of a step time before the residuals say otherwise, as if `USUAL_WEIGHT`
samples had shown it: measured clusters jitter by 3-10 %, and few samples show too little of it."""
USUAL_WEIGHT = 2.0


LEAST_SAMPLES = {CurveKind.SYNCHRONOUS: 5, CurveKind.ASYNCHRONOUS: 4}
"""As many as there are unknowns; Optimus' code asks for the same."""


@dataclass(frozen=True, slots=True)
class SpeedSetting:
    """A layout that can be asked for: servers, workers, samples of a global step."""

    servers: int
    workers: int
    batch: int


@dataclass(frozen=True, slots=True)
class SpeedSample:
    """How long a step took. Asynchronous: seconds between two steps, whichever workers made them."""

    servers: int
    workers: int
    batch: int
    seconds: float

    def __post_init__(self) -> None:
        if not (isfinite(self.seconds) and self.seconds > 0):
            raise BadMeasurementError(f"a step cannot take {self.seconds} s")
        if min(self.servers, self.workers, self.batch) < 1:
            raise BadMeasurementError(f"no step without servers, workers and a batch: {self}")

    @property
    def setting(self) -> SpeedSetting:
        """Where it was taken."""
        return SpeedSetting(self.servers, self.workers, self.batch)


@dataclass(frozen=True, slots=True, eq=False)
class SpeedCurve:
    """A fitted curve: its terms t, what it was fitted on, and how sure it is."""

    kind: CurveKind
    terms: tuple[float, ...]
    """Seconds, all >= 0, in the order of the formula."""
    samples: tuple[SpeedSample, ...]
    """Oldest first."""
    spread: float
    """Relative standard deviation of one measured step."""
    covariance: Array
    """(k, k): of the terms, in s²."""

    def seconds(self, setting: SpeedSetting) -> Estimate:
        """Seconds of a step, with the interval of one measured step (80 %)."""
        row = features(self.kind, [setting])[0]
        mean = float(row @ self.terms)
        deviation = sqrt(float(row @ self.covariance @ row) + (self.spread * mean) ** 2)
        return Estimate(mean, max(mean - NORMAL_80 * deviation, 0.0), mean + NORMAL_80 * deviation)


def fit_synchronous(samples: Sequence[SpeedSample]) -> SpeedCurve | Unknown:
    """Optimus' synchronous curve through samples, oldest first."""
    return _fit(CurveKind.SYNCHRONOUS, tuple(samples))


def fit_asynchronous(samples: Sequence[SpeedSample]) -> SpeedCurve | Unknown:
    """Optimus' asynchronous curve through samples, oldest first."""
    return _fit(CurveKind.ASYNCHRONOUS, tuple(samples))


def features(kind: CurveKind, settings: Sequence[SpeedSetting]) -> Array:
    """What each term is multiplied by, shape (settings, terms)."""
    p = np.array([setting.servers for setting in settings], dtype=np.float64)
    w = np.array([setting.workers for setting in settings], dtype=np.float64)
    if kind is CurveKind.ASYNCHRONOUS:
        return np.stack([1 / w, 1 / p, np.ones_like(w), p / w], axis=1)
    batch = np.array([setting.batch for setting in settings], dtype=np.float64)
    return np.stack([batch / w, np.ones_like(w), w / p, w, p], axis=1)


def _fit(kind: CurveKind, samples: tuple[SpeedSample, ...]) -> SpeedCurve | Unknown:
    """Non-negative least squares on the relative errors of the samples."""
    least = LEAST_SAMPLES[kind]
    if len({sample.setting for sample in samples}) < least:
        return Unknown(
            WhyUnknown.TOO_FEW_POINTS, f"{least} different settings are needed for a {kind} curve"
        )
    seconds = np.array([sample.seconds for sample in samples])
    relative = features(kind, [sample.setting for sample in samples]) / seconds[:, None]
    weights = recency(len(samples))
    scale = relative.max(
        axis=0
    )  # A term of size 1 is then a whole step at the setting where it shows most.
    rows = relative / scale * np.sqrt(weights)[:, None]
    terms, _ = nnls(rows, np.sqrt(weights))
    spread = _spread(rows @ terms - np.sqrt(weights), float(weights.sum()) - np.count_nonzero(terms))
    # Without evidence a term may be anything up to a whole step: samples that cannot tell two terms
    # apart leave them unsure, instead of sure by chance.
    covariance = np.linalg.inv(rows.T @ rows / spread**2 + np.eye(rows.shape[1]))
    return SpeedCurve(
        kind,
        tuple(float(t) for t in terms / scale),
        samples,
        spread,
        covariance / np.outer(scale, scale),
    )


def _spread(residuals: Array, freedom: float) -> float:
    """Relative standard deviation of a step, from what the curve leaves unexplained."""
    total = float(residuals @ residuals) + USUAL_WEIGHT * USUAL_SPREAD**2
    return sqrt(total / (max(freedom, 0.0) + USUAL_WEIGHT))
