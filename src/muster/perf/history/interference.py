"""Jobs that share a switch, socket or network card slow each other (Xiao, seed 003, section 3.2).

The prior is the shared link's load: neighbours that ask for g bytes/s of a link of bandwidth B leave
B - g, but never less than the fair part B/(1+k) with k neighbours there. Co-location observations then
say, for each kind of link, how much of that excess really shows.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

from muster.perf.estimate import BadMeasurementError
from muster.perf.wires import Wire

PRIOR_WEIGHT = 2.0
"""Of the load's own prediction against one observation."""
MOST = 4.0
"""More than so many times the predicted excess is a fault of the machine, not a neighbour."""


@dataclass(frozen=True, slots=True)
class Background:
    """What neighbours ask of one link: bytes/s in all, and how many they are."""

    rate: float
    neighbours: int


@dataclass(frozen=True, slots=True)
class Shared:
    """An observation: a step beside neighbours took `observed` of its time alone, `predicted` was said.

    Both are ratios >= 1 in principle; noise may put the observed one below.
    """

    wire: Wire
    predicted: float
    observed: float

    def __post_init__(self) -> None:
        if not (isfinite(self.predicted) and isfinite(self.observed) and self.observed > 0):
            raise BadMeasurementError(f"a slowdown of {self.observed} cannot be")


@dataclass(frozen=True, slots=True)
class Interference:
    """How much of the predicted excess each kind of link really shows."""

    observed: tuple[Shared, ...] = ()

    def and_also(self, more: Iterable[Shared]) -> "Interference":
        """With more observations."""
        return Interference((*self.observed, *more))

    def factor(self, wire: Wire) -> float:
        """Observed excess for one of predicted excess: 1 where nothing was observed."""
        seen = [s for s in self.observed if s.wire is wire and s.predicted > 1]
        excess = sum(max(0.0, s.observed - 1) for s in seen)
        expected = sum(s.predicted - 1 for s in seen)
        if not seen:
            return 1.0
        typical = expected / len(seen)
        return min(MOST, (excess + PRIOR_WEIGHT * typical) / (expected + PRIOR_WEIGHT * typical))


def left(bandwidth: float, background: Background, factor: float) -> float:
    """Bytes/s that a link with neighbours leaves to a job."""
    fair = bandwidth / (1 + background.neighbours)
    slowdown = bandwidth / max(fair, bandwidth - background.rate)
    return bandwidth / (1 + factor * (slowdown - 1))
