"""How often nodes are lost, and for how long."""

from collections.abc import Iterator
from random import Random

from muster.model.cluster import Cluster, NodeState
from muster.model.event import NodeEvent, NodeLost, NodeReturned

REPAIR = 3600.0
"""s until a lost node returns, while none has."""


class Outages:
    """Losses and returns of nodes, as seen."""

    def __init__(self) -> None:
        self._lost: dict[str, float] = {}
        """When each node that is away was lost, s."""
        self.losses = 0
        self.up = 0.0
        """Node-seconds."""
        self._returned = 0
        self._away = 0.0
        """s that those which returned were away, together."""

    def follow(self, cluster: Cluster, now: float, passed: float) -> None:
        """Take in which nodes are there."""
        lost = {node.name for node in cluster.nodes if node.state is NodeState.LOST}
        self.up += passed * (len(cluster.nodes) - len(self._lost))
        for name in lost - self._lost.keys():
            self._lost[name] = now
            self.losses += 1
        for name in self._lost.keys() - lost:
            self._away += now - self._lost.pop(name)
            self._returned += 1

    @property
    def repair(self) -> float:
        """Mean s until a node returns."""
        return self._away / self._returned if self._returned else REPAIR

    def draw(self, cluster: Cluster, now: float, until: float, seed: str) -> Iterator[NodeEvent]:
        """Draw returns of the nodes that are away, and losses at the rate seen; a node at a time."""
        between = self.up / self.losses if self.losses else 0.0
        for node in cluster.nodes:
            random, at = Random(f"{seed}/node/{node.name}"), now
            if node.state is NodeState.LOST:
                at += random.expovariate(1 / self.repair)
                yield NodeReturned(node.name, at)
            while between and (at := at + random.expovariate(1 / between)) < until:
                yield NodeLost(node.name, at)
                at += random.expovariate(1 / self.repair)
                yield NodeReturned(node.name, at)
