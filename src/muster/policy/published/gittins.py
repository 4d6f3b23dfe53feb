"""The Gittins index of jobs of unknown service, and the sample it is computed from.

Source: Gittins 1979, "Bandit processes and dynamic allocation indices"; used for training jobs by
Tiresias (Gu et al., NSDI 2019). S is the service a job takes in all (device-s), a what it has attained:

    index(a) = sup over d > 0 of  P(S - a <= d | S > a) / E[min(S - a, d) | S > a]      (1 / device-s)

the chance to end per device-second invested, at the best moment d to stop investing. S is the empirical
distribution of ended jobs: between two of its values the chance is constant while the investment grows,
so only those values need to be tried for d.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

_GROWTH = 10
"""The index is recomputed once the sample has grown by a tenth, which lowers its standard error by 5 %:
the total work stays proportional to the number of jobs."""


def gittins(sample: Sequence[float], attained: Sequence[float]) -> tuple[float, ...]:
    """Return the index in 1/device-s at each attained service; 0 if no job ended later."""
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
    """Services of ended jobs in device-s, and the index at the requested levels."""

    services: tuple[float, ...] = ()
    index: tuple[float, ...] = ()
    """By level; empty: unknown."""
    recent: tuple[float, ...] = ()
    """Services not in the index yet."""

    def learn(self, ended: Iterable[float], levels: Sequence[float]) -> "ServiceSample":
        """Return the sample with more jobs."""
        recent = (*self.recent, *ended)
        if not recent or len(recent) * _GROWTH < len(self.services):
            return ServiceSample(self.services, self.index, recent)
        services = (*self.services, *recent)
        return ServiceSample(services, gittins(services, levels))
