"""Outlooks of jobs among neighbours: policies compare speeds that jobs will really have."""

from collections.abc import Mapping
from statistics import fmean

from muster.model.outlook import Outlook
from muster.model.renew import renewer

DIGITS = 2
"""Of a factor: no measurement is better, and what is the same need not be worked out again."""
LEAST = 1.05
"""Factors below count as none: sizes are not worth changing for what may be noise."""

_renewed = renewer(Outlook)


def among_neighbours(
    outlooks: Mapping[int, Outlook], slowed: Mapping[int, float]
) -> Mapping[int, Outlook]:
    """Return the outlooks with the factors by which neighbours slow the running jobs; those that wait
    are expected to fare as these do on average."""
    factors = {job: round(factor, DIGITS) if factor >= LEAST else 1.0 for job, factor in slowed.items()}
    if all(factor == 1.0 for factor in factors.values()):
        return outlooks
    usual = round(fmean(factors.values()), DIGITS)
    return {job: _renewed(each, slowed=factors.get(job, usual)) for job, each in outlooks.items()}
