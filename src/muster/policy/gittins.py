"""The Gittins index of jobs whose service is unknown, and what has been learnt to work it out.

Source: Gittins 1979, "Bandit processes and dynamic allocation indices"; used for training jobs by
Tiresias (Gu et al., NSDI 2019). S is the service a job takes in all (device-s), a what it has attained:

    index(a) = sup over d > 0 of  P(S - a <= d | S > a) / E[min(S - a, d) | S > a]      (1 / device-s)

the chance to be done per device-second invested, at the best moment d to stop investing. S is the
empirical distribution of jobs seen to end: between two of its values the chance stands still while the
investment grows, so only those values need be tried for d.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_GROWTH = 10
"""The index is worked out anew once the sample has grown by a tenth, which lowers its standard error by
5 %: all the work together stays in proportion to the number of jobs."""


def gittins(sample: Sequence[float], attained: Sequence[float]) -> tuple[float, ...]:
    """The index in 1/device-s at each attained service; 0 where nobody is known to have ended later."""
    known = np.sort(np.asarray(sample, dtype=float))
    return tuple(_index(known, a) for a in attained)


def _index(known: np.ndarray, a: float) -> float:
    left = known[np.searchsorted(known, a, side="right") :] - a
    if not left.size:
        return 0.0
    done = np.arange(1, left.size + 1)
    # Sums over the sample of min(S - a, d), one for each d of the sample; both sides times its size.
    invested = np.cumsum(left) + (left.size - done) * left
    return float(np.max(done / invested))


@dataclass(frozen=True, slots=True)
class ServiceSample:
    """Services in device-s of jobs that have ended, and the index at the levels that were asked for."""

    services: tuple[float, ...] = ()
    index: tuple[float, ...] = ()
    """By level; empty: nothing is known yet."""
    recent: tuple[float, ...] = ()
    """Services that the index does not take into account yet."""

    def learn(self, ended: Iterable[float], levels: Sequence[float]) -> "ServiceSample":
        """The sample with more jobs in it."""
        recent = (*self.recent, *ended)
        if not recent or len(recent) * _GROWTH < len(self.services):
            return ServiceSample(self.services, self.index, recent)
        services = (*self.services, *recent)
        return ServiceSample(services, gittins(services, levels))
