"""The belief before an application's first step: what the others on these devices have shown.

The usual prior (`speed.fitted.PRIOR`) is that of any job anywhere. What jobs of one cluster have in
common, its links, hosts and neighbours, shows in the fits of the applications seen so far: each unknown
of the next one is normal, with mean and variance of theirs and the usual prior counting as `WEIGHT`
further ones (empirical Bayes).

Few fits tell all unknowns: an application that ran on one and on four devices of a node says how it
speeds up there, and nothing of networks. So each counts for an unknown by how far its steps have
narrowed the belief that they began with,

    w = 1 - (variance after / variance before),

which is what a random-effects mean weighs it by (DerSimonian and Laird, 1986; the variance between
applications being the prior's). Its own variance is part of how far applications differ.

Applications are compared in units of the smallest step that each may have. Of a and c only the odds
a / c are then unknown: together they make that step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, hypot, log, log1p, sqrt

import numpy as np

from muster.perf.learnt.batches import Array
from muster.perf.speed.fitted import PRIOR, FittedSpeed, Prior
from muster.perf.speed.step_form import NET, Belief

WEIGHT = 4.0
"""Applications that the usual prior counts as: two or three that are alike by chance change little."""
_NET = NET - 1
"""Of the unknowns below: odds of a over c, then the others in their order."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownForm:
    """What one application's steps have shown, (8,) each: the odds of a over c, then the others."""

    middles: Array
    variances: Array
    weights: Array
    """From 0, nothing of this unknown, to 1."""


def shown(fit: FittedSpeed, before: Prior) -> ShownForm:
    """Return what the fit of an application has shown beyond the belief before it."""
    larger = fit.unit.batch / before.smallest if before.smallest else 1.0
    fixed, growing = np.exp(fit.unknowns[:2]) / (1.0, larger)
    smallest = fixed + growing
    middles = np.append(log(fixed / growing), fit.unknowns[2:])
    middles[_NET] -= log(smallest)
    by = np.zeros((len(middles), len(middles) + 1))
    by[0, :2] = 1.0, -1.0
    by[1:, 2:] = np.eye(len(middles) - 1)
    by[_NET, :2] = -fixed / smallest, -growing / smallest
    by = by * fit.columns.prior.deviations
    known = by.shape[1]
    variances = np.einsum("ij,jk,ik->i", by, fit.covariance[:known, :known], by)
    weights = np.clip(1.0 - variances / _odds(before)[1] ** 2, 0.0, 1.0)
    return ShownForm(middles, variances, weights)


def prior_from(others: Sequence[ShownForm]) -> Prior:
    """Return the prior of the next application, given what those seen have shown."""
    if not others:
        return PRIOR
    usual, spread = _odds(PRIOR)
    seen = np.array([each.middles for each in others])
    variances = np.array([each.variances for each in others])
    weights = np.array([each.weights for each in others])
    count = WEIGHT + weights.sum(axis=0)
    middles = (WEIGHT * usual + (weights * seen).sum(axis=0)) / count
    apart = WEIGHT * (spread**2 + (usual - middles) ** 2)
    apart += (weights * ((seen - middles) ** 2 + variances)).sum(axis=0)
    return _prior(middles.tolist(), np.sqrt(apart / count).tolist())


def _odds(prior: Prior) -> tuple[Array, Array]:
    """Return the middles and deviations of the odds of a over c, and of the other unknowns."""
    middles, deviations = prior.middles, prior.deviations
    odds = middles[0] - middles[1], hypot(*deviations[:2])
    return np.append(odds[0], middles[2:]), np.append(odds[1], deviations[2:])


def _prior(middles: Sequence[float], deviations: Sequence[float]) -> Prior:
    odds, apart = middles[0], deviations[0] / sqrt(2.0)
    parts = (-log1p(exp(-odds)), apart), (-log1p(exp(odds)), apart)
    others = zip(middles[1:], deviations[1:], strict=True)
    return Prior(tuple(Belief(middle, deviation) for middle, deviation in (*parts, *others)))
