"""Computing time of a batch on a device: t = a + c b, a in s, c in s/sample, by model and device type.

A measured pair is fitted: non-negative least squares on relative errors, with a weak pull towards the
prior's shape. A model measured on another type only has its line there scaled by the ratio of models
known on both types, else of the data sheets. Without any measurement the prior counts alone:
operations over the device's rate by layer type, plus memory traffic.
"""

from dataclasses import dataclass
from math import exp, hypot, isfinite, log, sqrt
from statistics import median

import numpy as np

from muster.model.profile import ModelProfile
from muster.perf.devices import LAUNCH, MEMORY_REACHED, PASSES, REACHED, DeviceRate, data_sheet
from muster.perf.estimate import BadMeasurementError, Estimate, Unknown, WhyUnknown

PRIOR_SPREAD = 1.75
"""80 % of new models lie within this factor of the data sheet's time; 89 % over the public and measured
figures of three device types in `benchmarks/perf_compute.py`."""
TYPE_SPREAD = 1.25
"""The same for a line carried over from another device type."""
MEASURED_SPREAD = 1.1
"""The same for one measurement; it shrinks with the square root of their number."""
FORM_SPREAD = 1.25
"""The same for batches far from any measured one: small ones do not fill a device, so the line bends
(see the H200's figures in `benchmarks/perf_compute.py`)."""
NEAR = 1.1
"""Batches within this factor of a measured one count as measured."""
PRIOR_WEIGHT = 0.05
"""Weight of the prior's shape against one measurement."""


@dataclass(frozen=True, slots=True)
class ComputeLine:
    """Seconds of computing in a step: `fixed` + `per_sample` x batch, within a factor `spread`."""

    fixed: float
    per_sample: float
    spread: float
    measured: tuple[float, ...] = ()
    """Batches it was fitted to."""

    def seconds(self, batch: float) -> float:
        """Return the time of a batch on one device."""
        return self.fixed + self.per_sample * batch

    def estimate(self, batch: float) -> Estimate:
        """Return the time of a batch with its interval."""
        mean = self.seconds(batch)
        far = bool(self.measured) and all(not 1 / NEAR <= batch / at <= NEAR for at in self.measured)
        spread = exp(hypot(log(self.spread), log(FORM_SPREAD))) if far else self.spread
        return Estimate(mean, mean / spread, mean * spread)

    def times(self, factor: float, spread: float) -> "ComputeLine":
        """Return the line slowed by a factor, with this spread."""
        return ComputeLine(self.fixed * factor, self.per_sample * factor, spread, self.measured)


@dataclass(frozen=True, slots=True)
class Computed:
    """A measurement: seconds of forward and backward passes on one device."""

    profile: str
    device_type: str
    batch: float
    seconds: float

    def __post_init__(self) -> None:
        if not (
            isfinite(self.seconds) and self.seconds > 0 and isfinite(self.batch) and self.batch > 0
        ):
            raise BadMeasurementError(f"impossible: {self.batch} samples computed in {self.seconds} s")


@dataclass(frozen=True, slots=True)
class ComputeHistory:
    """Measurements of all jobs."""

    measured: tuple[Computed, ...] = ()

    def of(self, profile: str, device_type: str) -> list[Computed]:
        return [m for m in self.measured if (m.profile, m.device_type) == (profile, device_type)]


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A device type (or '4 cores') and its rate, where known."""

    name: str
    rate: DeviceRate | None


def line(profile: ModelProfile, kind: DeviceKind, history: ComputeHistory) -> ComputeLine | Unknown:
    """Return the computing time of a model on a kind of device."""
    before = prior(profile, kind.rate)
    shown = history.of(profile.name, kind.name)
    if shown:
        return _fitted(shown, before)
    carried = _carried(profile, kind, history)
    if carried is not None:
        return carried
    if before is None:
        detail = (
            f"the speed of {kind.name} is unknown: no job has run on it and it has no data sheet here; "
            "add device_rate and device_bandwidth to the cluster file"
        )
        return Unknown(WhyUnknown.NO_RATE, detail)
    return before


def prior(profile: ModelProfile, rate: DeviceRate | None) -> ComputeLine | None:
    """Return the data sheet's line; forward and backward passes count as three forward passes."""
    if rate is None:
        return None
    rated = rate.operations(profile.parameter_bytes)
    operations = 3 * profile.operations * sum(part / REACHED[kind] for kind, part in profile.layers)
    moved = PASSES * profile.activations / (MEMORY_REACHED * rate.memory)
    return ComputeLine(LAUNCH * len(profile.tensors), operations / rated + moved, PRIOR_SPREAD)


def _fitted(shown: list[Computed], before: ComputeLine | None) -> ComputeLine:
    from scipy.optimize import nnls  # slow to import, and most commands never fit anything

    seconds = np.array([m.seconds for m in shown])
    rows = np.array([[1.0, m.batch] for m in shown]) / seconds[:, None]
    wanted = np.ones(len(shown))
    shape = before or ComputeLine(0.0, 1.0, PRIOR_SPREAD)
    scale = median(m.seconds / shape.seconds(m.batch) for m in shown)
    pull = PRIOR_WEIGHT * np.diag(
        [1 / (scale * part) if part else 1.0 for part in (shape.fixed, shape.per_sample)]
    )
    aims = PRIOR_WEIGHT * np.array([1.0 if shape.fixed else 0.0, 1.0])
    (fixed, per_sample), _ = nnls(np.vstack([rows, pull]), np.concatenate([wanted, aims]))
    off = np.abs(rows @ np.array([fixed, per_sample]) - 1)
    noise = max(log(MEASURED_SPREAD), float(off.mean()))
    batches = tuple(sorted({m.batch for m in shown}))
    return ComputeLine(float(fixed), float(per_sample), exp(noise / sqrt(len(shown))), batches)


def _carried(profile: ModelProfile, kind: DeviceKind, history: ComputeHistory) -> ComputeLine | None:
    """Return the model's line on another type, scaled by the ratio of the two types."""
    elsewhere = {m.device_type for m in history.measured if m.profile == profile.name}
    for other in sorted(elsewhere):
        there = _fitted(history.of(profile.name, other), prior(profile, data_sheet(other)))
        ratio = _ratio(profile, kind, other, history)
        if ratio is not None:
            return there.times(ratio, there.spread * TYPE_SPREAD)
    return None


def _ratio(
    profile: ModelProfile, kind: DeviceKind, other: str, history: ComputeHistory
) -> float | None:
    """Return seconds here per second on the other type, by models seen on both, else data sheets."""
    seen = {m.profile for m in history.measured if m.device_type == kind.name}
    both = [name for name in sorted(seen) if history.of(name, other)]
    if both:
        lines = [[_fitted(history.of(name, at), None) for at in (kind.name, other)] for name in both]
        return median(a.seconds(profile.batch) / b.seconds(profile.batch) for a, b in lines)
    here, there = prior(profile, kind.rate), prior(profile, data_sheet(other))
    if here is None or there is None:
        return None
    return here.seconds(profile.batch) / there.seconds(profile.batch)
