"""Nodes and the cluster: an array of integers and a few small tables."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from muster.model.offer import NodeOffer
from muster.model.renew import renewer
from muster.model.topology import ConfigurationSet, Level, Link


class NodeState(StrEnum):
    """A node accepts tasks (up), only keeps those it has (draining), or is gone (lost)."""

    UP = "up"
    DRAINING = "draining"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Node:
    """A machine: its configuration set, place in the network tree, and free resources."""

    name: str
    configuration: str
    rack: str
    domain: str
    free: int
    millicores: int
    memory: int
    state: NodeState = NodeState.UP
    until: float | None = None
    """When a draining node must be empty, in s; None: whenever its jobs have ended."""
    offer: NodeOffer | None = None
    """What its agent said of it; None: a node of a cluster file, on the daemon's own machine."""
    why: str = ""
    """Why it is draining or lost."""
    since: float | None = field(default=None, compare=False)
    """When it came into its state, in s; None: at the beginning."""
    taken: float | None = None
    """When its engine takes it back, in s; `until` is that or earlier. None: nobody does."""


_renewed = renewer(Node)


@dataclass(frozen=True, slots=True)
class Cluster:
    """Configuration sets by name, nodes in a fixed order, and the links above the node."""

    name: str
    configurations: Mapping[str, ConfigurationSet]
    nodes: tuple[Node, ...]
    links: Mapping[Level, Link]
    open: bool = False
    """Whether nodes may join and leave: then jobs may ask for more than there is now."""
    index: Mapping[str, int] = field(init=False, repr=False, compare=False)
    _present: Mapping[str, int] | None = field(default=None, init=False, repr=False, compare=False)
    """The answer of `present`, once it was asked for: views are made with each fact, of thousands of
    nodes."""

    def __post_init__(self) -> None:
        positions = {node.name: i for i, node in enumerate(self.nodes)}
        object.__setattr__(self, "index", positions)

    def with_nodes(self, nodes: tuple[Node, ...], *, recount: bool = True) -> "Cluster":
        """Return the cluster with other node states; names and order must be the same. `recount`:
        whether some may be lost, or present, that were not, or have other devices."""
        other = object.__new__(Cluster)
        for name, value in (
            ("name", self.name),
            ("configurations", self.configurations),
            ("nodes", nodes),
            ("links", self.links),
            ("open", self.open),
            ("index", self.index),
            ("_present", None if recount else self._present),
        ):
            object.__setattr__(other, name, value)
        return other

    def node(self, name: str) -> Node:
        """Return the node of this name."""
        return self.nodes[self.index[name]]

    def configuration_of(self, node: Node) -> ConfigurationSet:
        """Return the node's configuration set."""
        return self.configurations[node.configuration]

    def device_types(self) -> tuple[str, ...]:
        """Return the device types, in the order of the configuration sets."""
        types = (c.device_type for c in self.configurations.values() if c.devices)
        return tuple(dict.fromkeys(types))

    def devices_by_type(self) -> dict[str, int]:
        """The devices of each type on all nodes, whatever their state."""
        found = dict.fromkeys(self.device_types(), 0)
        for node in self.nodes:
            kind = self.configuration_of(node)
            if kind.devices:
                found[kind.device_type] += kind.devices
        return found

    def present(self) -> Mapping[str, int]:
        """The devices of each type on the nodes that are not lost."""
        if self._present is None:
            object.__setattr__(self, "_present", self._count_present())
        assert self._present is not None
        return self._present

    def _count_present(self) -> dict[str, int]:
        found, lost = dict.fromkeys(self.device_types(), 0), NodeState.LOST
        names = [node.configuration for node in self.nodes if node.state is not lost]
        for name, count in Counter(names).items():
            kind = self.configurations[name]
            if kind.devices:
                found[kind.device_type] += count * kind.devices
        return found

    def node_devices(self) -> dict[str, int]:
        """The most devices on one node, by type."""
        found = dict.fromkeys(self.device_types(), 0)
        for kind in self.configurations.values():
            if kind.devices:
                found[kind.device_type] = max(found[kind.device_type], kind.devices)
        return found

    def free_devices(self) -> tuple[int, int]:
        """Free devices on the nodes that are up, and how many of them lie on partly used nodes."""
        free = scattered = 0
        for node in self.nodes:
            if node.state is NodeState.UP:
                count = node.free.bit_count()
                free += count
                scattered += count if count < self.configuration_of(node).devices else 0
        return free, scattered

    def emptied(self) -> "Cluster":
        """Return the cluster with every node up and free."""
        return replace(self, nodes=tuple(self._empty(node) for node in self.nodes))

    def _empty(self, node: Node) -> Node:
        kind = self.configuration_of(node)
        return _renewed(
            node,
            free=kind.all_devices,
            millicores=kind.millicores,
            memory=kind.memory,
            state=NodeState.UP,
            until=None,
            taken=None,
            why="",
        )


def draining(cluster: Cluster) -> dict[str, Node]:
    """Return the nodes that keep their tasks and take no new ones, by name."""
    return {node.name: node for node in cluster.nodes if node.state is NodeState.DRAINING}


def fragmentation(free: int, scattered: int) -> float:
    """Share of the free devices that lie on partly used nodes: 0 is whole, 1 is all in pieces."""
    return scattered / free if free else 0.0


def span(cluster: Cluster, names: set[str]) -> Level:
    """Return the narrowest level of the network tree that holds all these nodes."""
    nodes = [cluster.node(name) for name in names]
    if len(nodes) <= 1:
        return Level.NODE
    if len({node.domain for node in nodes}) > 1:
        return Level.CLUSTER
    return Level.RACK if len({node.rack for node in nodes}) == 1 else Level.DOMAIN
