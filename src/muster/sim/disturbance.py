"""How much neighbours slow each other down (Xiao, seed 003, section 3.2; the network's as in Pollux).

Two jobs disturb each other by the narrowest thing they share: a switch, a socket, a node, or, if both
span several nodes, a node's network card. A job is slowed by its worst neighbour, not by the sum.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.cluster import Cluster
from muster.model.topology import Level
from muster.sim.life import Life


@dataclass(frozen=True, slots=True)
class Disturbance:
    """By how much a step slows (0.1: a tenth) beside a neighbour that shares this."""

    switch: float = 0.0
    socket: float = 0.0
    node: float = 0.0
    network: float = 0.0

    @property
    def any(self) -> bool:
        """Whether there is any."""
        return max(self.switch, self.socket, self.node, self.network) > 0.0

    def slowdown(self, life: Life, others: Iterable[Life], cluster: Cluster) -> float:
        """Return the factor by which these neighbours slow the job."""
        return 1.0 + max((self._between(life, other, cluster) for other in others), default=0.0)

    def _between(self, one: Life, other: Life, cluster: Cluster) -> float:
        if one is other or one.placement is None or other.placement is None:
            return 0.0
        mine, theirs = one.placement.bits(), other.placement.bits()
        shared = [node for node in mine if node in theirs]
        if not shared:
            return 0.0
        both_wide = len(mine) > 1 and len(theirs) > 1
        worst = self.network if both_wide else 0.0
        return max(worst, *(self._on(cluster, node, mine[node], theirs[node]) for node in shared))

    def _on(self, cluster: Cluster, node: str, mine: int, theirs: int) -> float:
        """Return the cost of sharing a node, by the narrowest group that holds devices of both."""
        if not mine or not theirs:
            return 0.0
        costs = {Level.SWITCH: self.switch, Level.SOCKET: self.socket, Level.NODE: self.node}
        for layer in cluster.configuration_of(cluster.node(node)).layers:
            if any(group & mine and group & theirs for group in layer.groups):
                return costs.get(layer.level, 0.0)
        return self.node


UNDISTURBED = Disturbance()
