"""The belief before an application's first step: what the others on these devices have shown.

The usual prior (`speed.fitted.PRIOR`) is that of any job anywhere. What jobs of one cluster have in
common, its links, hosts and neighbours, shows in the fits of the applications seen so far: each unknown
of the next one is normal, with mean and variance of theirs and the usual prior counting as `WEIGHT`
further ones (empirical Bayes).
"""

from collections.abc import Sequence

import numpy as np

from muster.perf.learnt.batches import Array
from muster.perf.speed.fitted import PRIOR, Prior
from muster.perf.speed.step_form import Belief

WEIGHT = 4.0
"""Applications that the usual prior counts as: two or three that are alike by chance change little."""


def prior_from(others: Sequence[Array]) -> Prior:
    """Return the prior of the next application, given the unknowns of those seen."""
    if not others:
        return PRIOR
    seen, usual = np.array(others), PRIOR.deviations**2
    count = WEIGHT + len(others)
    middles = (WEIGHT * PRIOR.middles + seen.sum(axis=0)) / count
    apart = WEIGHT * (usual + (PRIOR.middles - middles) ** 2) + ((seen - middles) ** 2).sum(axis=0)
    deviations = np.sqrt(apart / count)
    beliefs = zip(middles.tolist(), deviations.tolist(), strict=True)
    return Prior(tuple(Belief(middle, deviation) for middle, deviation in beliefs))
