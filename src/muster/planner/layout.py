"""Layouts of workers: nodes of each kind, and devices on each of them.

A kind is a configuration set and a number of free devices. Nodes of a kind are taken near each other,
in as few racks as possible.
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
    """Nodes of one configuration set with equally many free devices, by rack."""

    configuration: str
    free: int
    racks: Mapping[Rack, tuple[Node, ...]]

    @property
    def count(self) -> int:
        return sum(len(nodes) for nodes in self.racks.values())


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes of a kind with `devices` used on each."""

    kind: NodeKind
    nodes: int
    devices: int


Racked = dict[Rack, list[tuple[NodeGroup, int]]]
"""For each rack: groups, and how many of their nodes are there."""


@dataclass(frozen=True)
class Layout:
    """The devices of a job's workers, by kind of node."""

    groups: tuple[NodeGroup, ...]

    @cached_property
    def devices(self) -> int:
        return sum(group.nodes * group.devices for group in self.groups)

    @cached_property
    def nodes(self) -> int:
        return sum(group.nodes for group in self.groups)

    @cached_property
    def racks(self) -> Racked:
        """Nodes of each group by rack: the racks that hold most come first."""
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
        """The same with the nodes of each group spread over the racks in turn."""
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
        """Return the nodes of each group by rack: near each other or spread."""
        return self.dealt if dealt else self.racks

    def _by_room(self) -> list[Rack]:
        """Return the racks, those that could hold most of the layout first."""
        racks = dict.fromkeys(rack for group in self.groups for rack in group.kind.racks)
        held = {
            rack: sum(min(g.nodes, len(g.kind.racks.get(rack, ()))) for g in self.groups)
            for rack in racks
        }
        return sorted(racks, key=lambda rack: (-held[rack], rack))


def kinds_of(cluster: Cluster, configurations: Iterable[str]) -> tuple[NodeKind, ...]:
    """Return the kinds of nodes that could take workers."""
    allowed = set(configurations)
    found: dict[tuple[str, int], dict[Rack, tuple[Node, ...]]] = {}
    for node in cluster.nodes:
        if node.state is NodeState.UP and node.configuration in allowed and node.free:
            racks = found.setdefault((node.configuration, node.free.bit_count()), {})
            rack = (node.domain, node.rack)
            racks[rack] = (*racks.get(rack, ()), node)
    return tuple(NodeKind(configuration, free, racks) for (configuration, free), racks in found.items())


def layouts(kinds: Sequence[NodeKind], least: int, most: int) -> Iterator[Layout]:
    """Yield every layout with `least` to `most` devices, over all divisions among the kinds."""
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
    """Return nodes for a layout and devices on each, in as few racks as possible or spread."""
    return [
        (node, group.devices)
        for rack, taken in layout.spread(dealt=dealt).items()
        for group, count in taken
        for node in group.kind.racks[rack][:count]
    ]
