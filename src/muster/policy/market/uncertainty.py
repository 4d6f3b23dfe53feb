"""The certain length that is as urgent as an uncertain one.

Source: Gittins 1979 (see `gittins`): of jobs of unknown length the one to serve is that with the
largest chance to end per unit of work invested, at the best moment d to stop investing. A certain job
of length x has the index 1 / x; one whose work left X is only known as a distribution counts as

    min over d of  E[min(X, d)] / P(X <= d)                                       (units of its work)

For X log-normal with median m and standard deviation s of its logarithm, d = m exp(s z) and Phi the
normal distribution, that is m times

    factor(s) = min over z of  (exp(s^2 / 2) Phi(z - s) + exp(s z) (1 - Phi(z))) / Phi(z)

It is exp(s^2 / 2), the mean, while s is small, 1.47 at most, and falls from s = 1 on: a job that may
end soon is worth trying, though its mean is all tail.

Where a job's end tells the length of n equally long ones, itself among them, they are invested in
together: stopped at d, the first has either ended, and then the n - 1 others take as long each, or told
that they are long. So with n ends instead of one each of them counts as

    min over d of  (E[min(X, d)] + (n - 1) E[X; X <= d]) / (n P(X <= d))

with E[X; X <= d] = m exp(s^2 / 2) Phi(z - s). The more it tells, the sooner it is worth trying: with
s = 0.83 that is 1.38 m of one job, 0.90 m of three and 0.53 m of ten.
"""

from functools import cache, lru_cache
from math import erf, exp, sqrt

_FROM, _TO, _STEPS = -1.0, 6.0, 280
"""Range of z. Further below the median the shape of the distribution is unknown."""

DEVIATIONS = 1.0
"""Standard deviations by which another job must seem shorter. Three, which rule out chance, made a long
job of unknown length keep its devices for hours: the mean of rigid jobs was 4 to 7 % longer and more of
them were late (`sim_fair.py`, seeds from 100 on; `sim_rigid.py`). With half of one, the mean and the
slowest twentieth of jobs of which nothing is known are longer again."""
MOST = 32
"""Jobs of which one's end tells, at most: more change little."""
FIRMEST = 1e3
"""The most that firmness counts: of a spread beyond 7 nothing more is to be said."""


def counts_as(left: float, spread: float, tells: int = 1) -> float:
    """Return the certain length that is as urgent as this uncertain one; `tells`: jobs of whose length
    its end tells, itself among them."""
    return left * _factor(round(spread, 2), min(tells, MOST)) if spread > 0.0 else left


def firmness(spread: float, rigid: float = 1.0) -> float:
    """Return how many times as much as a running job's gang others must be worth to stop it.

    Stopping a job for a shorter one pays only if that is shorter. Where lengths are known to a factor
    exp(spread), jobs that seem to differ by fewer than `DEVIATIONS` of them are as good as equal, and
    taking turns makes both late. More would not pay: what a stop costs is counted apart (see `stops`),
    and a job that runs on without ending is believed ever longer. An elastic job need not take turns:
    it shrinks, and the others grow by what it leaves. So the rule holds to the part of its largest
    share that it cannot give up, `rigid`: 1 if it has one size only.
    """
    return min(exp(DEVIATIONS * spread * rigid), FIRMEST)


@lru_cache(maxsize=1024)
def _factor(spread: float, tells: int) -> float:
    mean, root = exp(spread**2 / 2), sqrt(2.0)
    return min(
        [  # hot path: `_normal` written out
            (tells * mean * (0.5 * (1.0 + erf((z - spread) / root))) + exp(spread * z) * (1.0 - done))
            / (tells * done)
            for z, done in _moments()
        ]
    )


@cache
def _moments() -> tuple[tuple[float, float], ...]:
    """Return each z with Phi(z)."""
    steps = (_FROM + i * (_TO - _FROM) / _STEPS for i in range(_STEPS + 1))
    return tuple((z, _normal(z)) for z in steps)


def _normal(z: float) -> float:
    return 0.5 * (1.0 + erf(z / sqrt(2.0)))
