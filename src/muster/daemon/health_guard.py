"""Drains nodes that are not well, and uses them again when the cause is gone by itself."""

from collections.abc import Iterator, Mapping

from muster.executors.health import recovered, unhealthy
from muster.model.cluster import Cluster, Node, NodeState
from muster.model.event import NodeDraining, NodeReturned
from muster.wire.api.records import NodeHealth

UNHEALTHY = "unhealthy: "
"""Begins the reason of a drain by the daemon itself."""


class HealthGuard:
    """Remembers what it drained nodes for: a node that an administrator resumes stays in use until
    something else is wrong with it."""

    def __init__(self) -> None:
        self._reasons: dict[str, str] = {}

    def look(
        self, cluster: Cluster, agents: Mapping[str, NodeHealth], now: float
    ) -> list[NodeDraining | NodeReturned]:
        """Return the facts that follow from how the nodes are."""
        there = (cluster.node(name) for name in agents if name in cluster.index)
        return [fact for node in there for fact in self._turned(node, agents[node.name], now)]

    def _turned(
        self, node: Node, health: NodeHealth, now: float
    ) -> Iterator[NodeDraining | NodeReturned]:
        why = unhealthy(health)
        if node.state is NodeState.UP and why and self._reasons.get(node.name) != why:
            self._reasons[node.name] = why
            yield NodeDraining(node.name, now, None, UNHEALTHY + why)
        elif _drained_by_us(node) and recovered(node.why.removeprefix(UNHEALTHY), health) and not why:
            self._reasons.pop(node.name, None)
            yield NodeReturned(node.name, now)


def _drained_by_us(node: Node) -> bool:
    return node.state is NodeState.DRAINING and node.why.startswith(UNHEALTHY)
