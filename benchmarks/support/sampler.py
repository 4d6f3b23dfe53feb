"""Which setting to try next: the one whose sample narrows the predictions most.

Optimus tries 5-10 random settings before a job runs (seed 004). Here the next one is chosen by
sequential optimal design (V-optimality: Fedorov, Theory of Optimal Experiments, 1972): around what is
known so far a model is linear in its unknowns, so the variance that a sample at x would leave,

    mean over candidates c of  p_c' S_x p_c,    S_x = (S^-1 + M_x' M_x)^-1,

is known before the sample is taken, whatever it will show. p_c: derivative of the log of the predicted
step time at c by the unknowns; M_x: derivative of what a sample at x measures, over its noise; S:
covariance of the unknowns. No measured time of a setting that was not yet tried enters.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from muster.perf.estimate import Unknown
from muster.perf.speed.fitted import FittedSpeed
from muster.perf.speed.step_form import StepSetting

Array = NDArray[np.float64]

ALIKE = 1e-6
"""Candidates whose gain differs by less, relatively, are equally good: a placement and its mirror image
differ by rounding only, which must not decide between them."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What a model knows, and what samples at n candidates would tell it about its m unknowns."""

    predicted: Array
    """(n, m): derivative of the log of the predicted step time."""
    measured: Array
    """(n, q, m): derivative of the q things that a sample measures, each over its noise."""
    covariance: Array
    """(m, m): of the unknowns, as known now."""


def evidence_of(speed: FittedSpeed, candidates: Sequence[StepSetting]) -> Evidence:
    """Return what samples at the candidates would tell a fitted job."""
    _, by, covariance = speed.around(candidates)
    spread = speed.columns.spread
    return Evidence(by[:, 0], by / np.array([spread.step, spread.computing])[:, None], covariance)


def next_sample(
    speed: FittedSpeed | Unknown, candidates: Sequence[StepSetting], taken: Sequence[StepSetting]
) -> StepSetting | None:
    """Return the candidate to try next, the earliest of equally good ones; None when all were tried.

    Without a fit (too few samples): first the smallest, then the farthest from those taken.
    """
    tried = set(taken)
    left = [i for i, candidate in enumerate(candidates) if candidate not in tried]
    if not left:
        return None
    if isinstance(speed, Unknown):
        return candidates[_farthest(candidates, left, taken)]
    narrowed = narrowing(evidence_of(speed, candidates))
    enough = (1 - ALIKE) * max(narrowed[i] for i in left)
    return candidates[next(i for i in left if narrowed[i] >= enough)]


def narrowing(evidence: Evidence) -> Array:
    """How much a sample at each candidate lowers the mean variance of the log predictions, (n,)."""
    predicted, measured, covariance = evidence.predicted, evidence.measured, evidence.covariance
    mean_square = predicted.T @ predicted / len(predicted)
    reach = measured @ covariance
    told = reach @ measured.transpose(0, 2, 1) + np.eye(measured.shape[1])
    gained = reach @ mean_square @ reach.transpose(0, 2, 1)
    return np.asarray(np.trace(np.linalg.solve(told, gained), axis1=1, axis2=2), dtype=np.float64)


def _farthest(candidates: Sequence[StepSetting], left: list[int], taken: Sequence[StepSetting]) -> int:
    """The one whose nearest taken setting is farthest; with none taken, the smallest."""
    if not taken:
        return min(left, key=lambda i: candidates[i].coordinates)
    where = np.array([candidate.coordinates for candidate in candidates])
    known = np.array([candidate.coordinates for candidate in taken])
    nearest = np.linalg.norm(where[:, None, :] - known[None, :, :], axis=2).min(axis=1)
    return max(left, key=lambda i: nearest[i])
