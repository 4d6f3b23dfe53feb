"""Jobs that share a switch, socket or network card slow each other (Xiao, seed 003, section 3.2).

The prior is the shared link's load: k neighbours that ask for g bytes/s of a link of bandwidth B leave
B - g, at least the fair part B/(1+k). Observations of co-located jobs then correct the predicted excess
for each kind of link.
"""

from dataclasses import dataclass
from math import isfinite

from muster.perf.estimate import BadMeasurementError
from muster.perf.wires import Wire

PRIOR_WEIGHT = 2.0
"""Weight of the predicted excess against one observation."""
MOST = 4.0
"""More than this many times the predicted excess is a faulty machine, not a neighbour."""


@dataclass(frozen=True, slots=True)
class Background:
    """The load of neighbours on one link: total bytes/s, and their number."""

    rate: float
    neighbours: int


@dataclass(frozen=True, slots=True)
class Shared:
    """An observation: the slowdown of a step beside neighbours, predicted and observed.

    Both are ratios >= 1 in principle; noise may put the observed one below.
    """

    wire: Wire
    predicted: float
    observed: float

    def __post_init__(self) -> None:
        if not (isfinite(self.predicted) and isfinite(self.observed) and self.observed > 0):
            raise BadMeasurementError(f"impossible: a slowdown of {self.observed}")


@dataclass(frozen=True, slots=True)
class Interference:
    """The observed part of the predicted excess, by kind of link."""

    observed: tuple[Shared, ...] = ()

    def factor(self, wire: Wire) -> float:
        """Return observed over predicted excess; 1 without observations."""
        seen = [s for s in self.observed if s.wire is wire and s.predicted > 1]
        excess = sum(max(0.0, s.observed - 1) for s in seen)
        expected = sum(s.predicted - 1 for s in seen)
        if not seen:
            return 1.0
        typical = expected / len(seen)
        return min(MOST, (excess + PRIOR_WEIGHT * typical) / (expected + PRIOR_WEIGHT * typical))


def left(bandwidth: float, background: Background, factor: float) -> float:
    """Return the bytes/s that a link with neighbours leaves to a job."""
    fair = bandwidth / (1 + background.neighbours)
    slowdown = bandwidth / max(fair, bandwidth - background.rate)
    return bandwidth / (1 + factor * (slowdown - 1))
