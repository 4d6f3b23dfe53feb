"""The chance that a job ends late if it is left waiting a while, beyond that if it runs from now on.

Late is what takes more than its fair time (see `urgency`). Whether a job will be follows from how long
it is, which is only believed: log-normal, with the middle and the spread of its outlook. Of a job that
was submitted T s ago, has had R s of what it asks for and needs x more, begun after d s,

    rho(x, d) = (T + d + x) / ((R + x) max(1, (crowd-seconds so far + those of d + x) / (T + d + x)))

The crowd falls as work is done: all work left takes W / n s, and the crowd C of now is C (1 - t n / W)
after t of them. So crowd-seconds of the next t s are C t (1 - t n / 2 W), and C W / 2 n at most. Late
counts in part from `FROM` on and whole from `TO` on, since rho is not known exactly either. The chance
is the mean over x.

    risk = P(late, begun after `LATER` W / n s) - P(late, begun now)

It is large for a job that still can be in time and soon cannot: not for one that has time, nor for one
that is late already, whose devices save another.
"""

import numpy as np

from muster.policy.market.prices import Array

FROM, TO = 0.95, 1.15
"""Finish-time ratios between which lateness counts in part."""
LATER = 0.04
"""Part of the time that all work left takes, after which a job might begin instead of now."""
LEAST = 0.2
"""Standard deviation of the logarithm of any length: the schedule is not known better."""
UNKNOWN = 2.0
"""A risk counts exp(-`UNKNOWN` x spread) times: what is little known shall not stop others."""
VAGUEST = 7.0
"""The most that its spread counts: of a wider one nothing more is to be said."""
_DEVIATIONS = np.linspace(-2.0, 2.0, 9)
_WEIGHTS = np.exp(-(_DEVIATIONS**2) / 2) / np.exp(-(_DEVIATIONS**2) / 2).sum()
INSTANT = 1e-9
"""s; a job that ends as soon as it begins still has a ratio."""


def risks(jobs: Array, rest: float) -> Array:
    """Return each job's risk. `jobs`, a column for each: s left on what it asks for, s before it works,
    standard deviation of the logarithm of the former, s that it has had, s since its submission, its
    crowd-seconds and the crowd now; `rest`: s that all work left takes."""
    left, starts, spread, had, lived, crowded, crowd = jobs[:, :, None]
    spread = np.clip(spread, LEAST, VAGUEST)
    needs = starts + left * np.exp(spread * _DEVIATIONS)
    now, later = (
        _late(needs, had, lived + delay, crowded + crowd * _falling(needs + delay, rest))
        for delay in (0.0, LATER * rest)
    )
    found: Array = np.maximum(0.0, later - now) * np.exp(-UNKNOWN * jobs[2])
    return found


def _late(needs: Array, had: Array, lived: Array, crowded: Array) -> Array:
    """Return each job's chance to be late."""
    life = np.maximum(INSTANT, lived + needs)
    ratio = life / (np.maximum(INSTANT, had + needs) * np.maximum(1.0, crowded / life))
    late: Array = np.clip((ratio - FROM) / (TO - FROM), 0.0, 1.0) @ _WEIGHTS
    return late


def _falling(ahead: Array, rest: float) -> Array:
    """Return the s for which today's crowd would make the crowd-seconds of the s ahead."""
    within = np.minimum(ahead, rest)
    falling: Array = within * (1.0 - within / (2.0 * max(rest, INSTANT)))
    return falling
