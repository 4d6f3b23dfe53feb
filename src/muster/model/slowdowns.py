"""What neighbours share, and how much longer that makes their steps.

Two jobs disturb each other by what they share (Xiao, section 3.2): a switch most, a socket less, a
node's memory and cores least; jobs over several nodes also share network cards and uplinks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from muster.model.topology import ConfigurationSet, Level


class Common(StrEnum):
    """The narrowest thing that two jobs share on a node, or the network."""

    SWITCH = "switch"
    SOCKET = "socket"
    NODE = "node"
    NETWORK = "network"


PRIOR: Mapping[Common, float] = {
    Common.SWITCH: 0.12,
    Common.SOCKET: 0.06,
    Common.NODE: 0.03,
    Common.NETWORK: 0.03,
}
"""Before anything is measured: Xiao's 12 % (TensorFlow) below one switch; it is less farther apart, and
the halves are ours."""


@dataclass(frozen=True, slots=True)
class Slowdowns:
    """By how much a step gets longer (0.1: a tenth) beside one neighbour."""

    typical: Mapping[Common, float] = field(default_factory=lambda: PRIOR)
    """Of any two jobs."""
    pairs: Mapping[Common, Mapping[str, Mapping[str, float]]] = field(default_factory=dict)
    """Of jobs of two kinds: the own, then the neighbour's."""
    kinds: Mapping[int, str] = field(default_factory=dict)
    """The kinds of live jobs, by number; the others are like any job."""
    proven: Mapping[Common, float] = field(default_factory=dict)
    """What was measured often enough to move a running job for it, with its error."""

    def beside(self, common: Common, own: int, other: int) -> float:
        """Return how much longer the steps of a job get beside another."""
        known = self.pairs.get(common, {}).get(self.kinds.get(own, ""), {})
        return known.get(self.kinds.get(other, ""), self.typical[common])

    def without_doubt(self) -> "Slowdowns":
        """Return what was measured often enough, less its error; the rest costs nothing."""
        typical = {each: self._surely(each, e) for each, e in self.typical.items()}
        pairs = {
            common: {
                own: {other: self._surely(common, e) for other, e in beside.items()}
                for own, beside in known.items()
            }
            for common, known in self.pairs.items()
        }
        return Slowdowns(typical, pairs, self.kinds, self.proven)

    def _surely(self, common: Common, excess: float) -> float:
        return max(0.0, excess - self.proven.get(common, excess))


def common_on(kind: ConfigurationSet, mine: int, theirs: int) -> Common:
    """Return what two jobs share that are on one node, by their devices there."""
    if mine and theirs:
        for layer in kind.layers:
            if any(group & mine and group & theirs for group in layer.groups):
                return _BY_LEVEL[layer.level]
    return Common.NODE


_BY_LEVEL = {
    Level.DEVICE: Common.SWITCH,
    Level.SWITCH: Common.SWITCH,
    Level.SOCKET: Common.SOCKET,
    Level.NODE: Common.NODE,
}
