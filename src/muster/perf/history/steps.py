"""Steps measured against their predictions: the correction of later ones (KAIST, seed 001).

The ratio measured / predicted is averaged in logarithms over three circles: all jobs that synchronise
alike, those of the model, the job itself. Each is pulled towards the wider one while observations are
few.
"""

from dataclasses import dataclass
from math import exp, isfinite, log

from muster.model.plan import Overlap, Sync
from muster.perf.estimate import BadMeasurementError

PULL = 1.0
"""Observations that the wider circle is worth."""
SPREAD = 1.25
"""80 % of unconfirmed predictions are right within this factor."""
LEAST_SPREAD = 1.03
"""No step is predicted closer: repeated measurements of one setting differ by this factor."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """An observation: a step that was predicted, and measured, in s."""

    job: str
    profile: str
    sync: Sync
    overlap: Overlap
    predicted: float
    measured: float

    def __post_init__(self) -> None:
        if not all(isfinite(t) and t > 0 for t in (self.predicted, self.measured)):
            problem = f"impossible: a step of {self.measured} s (predicted {self.predicted})"
            raise BadMeasurementError(problem)


@dataclass(frozen=True, slots=True)
class Correction:
    """What to multiply a prediction by, the factor within which it is then right, and its evidence."""

    factor: float
    spread: float
    steps: int


@dataclass(frozen=True, slots=True)
class StepHistory:
    """All steps that were predicted and measured."""

    observed: tuple[Stepped, ...] = ()

    def correction(self, job: str, profile: str, sync: Sync, overlap: Overlap) -> Correction:
        """Return the correction for a job's plan."""
        alike = [s for s in self.observed if (s.sync, s.overlap) == (sync, overlap)]
        same_model = [s for s in alike if s.profile == profile]
        own = [s for s in same_model if job and s.job == job]
        mean, spread = 0.0, log(SPREAD)
        for circle in (alike, same_model, own):
            mean, spread = _drawn(circle, mean, spread)
        return Correction(exp(mean), exp(max(spread, log(LEAST_SPREAD))), len(alike))


def _drawn(circle: list[Stepped], mean: float, spread: float) -> tuple[float, float]:
    """Return a circle's mean and spread of log ratios, drawn towards the wider circle's."""
    if not circle:
        return mean, spread
    ratios = [log(s.measured / s.predicted) for s in circle]
    count = len(ratios)
    new = (sum(ratios) + PULL * mean) / (count + PULL)
    off = sum(abs(ratio - new) for ratio in ratios) / count
    # The mean absolute error holds 58 % of a normal's; 1.6 of it holds 80 %.
    return new, (1.6 * off * count + PULL * spread) / (count + PULL)
