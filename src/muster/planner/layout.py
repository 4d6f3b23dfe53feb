"""Layouts of workers: how many nodes of each kind, and how many devices on each of them.

A kind is what nodes have in common that matters here: their configuration set and how many of their
devices are free. Which nodes of a kind are taken follows: near ones, in as few racks as possible.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from muster.model.cluster import Cluster, Node, NodeState

Rack = tuple[str, str]
"""The names of a domain and of a rack in it."""


@dataclass(frozen=True, slots=True)
class NodeKind:
    """Nodes of one configuration set with as many free devices, by rack."""

    configuration: str
    free: int
    racks: Mapping[Rack, tuple[Node, ...]]

    @property
    def count(self) -> int:
        """How many nodes there are."""
        return sum(len(nodes) for nodes in self.racks.values())


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """So many nodes of a kind with so many devices on each."""

    kind: NodeKind
    nodes: int
    devices: int


Racked = dict[Rack, list[tuple[NodeGroup, int]]]
"""For each rack: groups, and how many of their nodes lie there."""


@dataclass(frozen=True)
class Layout:
    """The devices of a job's workers, by kind of node."""

    groups: tuple[NodeGroup, ...]

    @cached_property
    def devices(self) -> int:
        """All of them."""
        return sum(group.nodes * group.devices for group in self.groups)

    @cached_property
    def nodes(self) -> int:
        """The nodes they are on."""
        return sum(group.nodes for group in self.groups)

    @cached_property
    def racks(self) -> Racked:
        """How many nodes of each group lie in which rack: the racks that hold most come first."""
        left = [group.nodes for group in self.groups]
        found: Racked = {}
        for rack in self._by_room():
            for i, group in enumerate(self.groups):
                taken = min(left[i], len(group.kind.racks.get(rack, ())))
                if taken:
                    found.setdefault(rack, []).append((group, taken))
                    left[i] -= taken
        return found

    @cached_property
    def dealt(self) -> Racked:
        """The same with the nodes of each group dealt over the racks in turn."""
        found: Racked = {}
        for group in self.groups:
            room = {rack: len(nodes) for rack, nodes in sorted(group.kind.racks.items())}
            taken = dict.fromkeys(room, 0)
            for _ in range(group.nodes):
                open_ = [rack for rack in room if taken[rack] < room[rack]]
                taken[min(open_, key=lambda rack: taken[rack])] += 1
            for rack, count in taken.items():
                if count:
                    found.setdefault(rack, []).append((group, count))
        return found

    def spread(self, *, dealt: bool) -> Racked:
        """How many nodes of each group lie in which rack: near or dealt."""
        return self.dealt if dealt else self.racks

    def _by_room(self) -> list[Rack]:
        """The racks, those that could hold most of the layout first."""
        racks = dict.fromkeys(rack for group in self.groups for rack in group.kind.racks)
        held = {
            rack: sum(min(g.nodes, len(g.kind.racks.get(rack, ()))) for g in self.groups)
            for rack in racks
        }
        return sorted(racks, key=lambda rack: (-held[rack], rack))


def kinds_of(cluster: Cluster, configurations: Iterable[str]) -> tuple[NodeKind, ...]:
    """The kinds of nodes that could take workers on devices."""
    allowed = set(configurations)
    found: dict[tuple[str, int], dict[Rack, tuple[Node, ...]]] = {}
    for node in cluster.nodes:
        if node.state is NodeState.UP and node.configuration in allowed and node.free:
            racks = found.setdefault((node.configuration, node.free.bit_count()), {})
            rack = (node.domain, node.rack)
            racks[rack] = (*racks.get(rack, ()), node)
    return tuple(NodeKind(configuration, free, racks) for (configuration, free), racks in found.items())


def layouts(kinds: Sequence[NodeKind], least: int, most: int) -> Iterator[Layout]:
    """Every layout with so many devices, over all ways to divide them among the kinds."""
    choices = [[None, *_groups(kind, most)] for kind in kinds]
    for picked in product(*choices):
        groups = tuple(group for group in picked if group is not None)
        if groups and least <= sum(group.nodes * group.devices for group in groups) <= most:
            yield Layout(groups)


def _groups(kind: NodeKind, most: int) -> Iterator[NodeGroup]:
    there = kind.count
    for devices in range(1, kind.free + 1):
        for nodes in range(1, min(there, most // devices) + 1):
            yield NodeGroup(kind, nodes, devices)


def nodes_of(layout: Layout, *, dealt: bool = False) -> list[tuple[Node, int]]:
    """Nodes for a layout with the devices on each: in as few racks as possible, or dealt over them."""
    return [
        (node, group.devices)
        for rack, taken in layout.spread(dealt=dealt).items()
        for group, count in taken
        for node in group.kind.racks[rack][:count]
    ]
