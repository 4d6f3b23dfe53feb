"""A working copy of what is free, indexed so that a search does not walk over the nodes.

Sets of nodes are integers, one bit per node, so "nodes of rack 7 with five free devices" is one AND.
Nodes whose free devices differ only by swapping equal subtrees share a *shape*, and a search looks at
shapes (a few dozen), not nodes (thousands). The board is the only mutable thing in deciding; it is made
from a view and dropped with the cycle.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray

from muster.model.choice import ChoiceTable, choice_table
from muster.model.cluster import Cluster, NodeState, fragmentation
from muster.model.job import Need
from muster.model.placement import Slot
from muster.model.plan import Plan
from muster.model.topology import MAX_DEVICES, ConfigurationSet, Level

UNBOUNDED = 1 << 30
"""Tasks that fit where a task needs nothing: more than any plan has."""


@dataclass(frozen=True, slots=True)
class Withheld:
    """What was set aside on one node, to be restored later."""

    node: int
    bits: int
    millicores: int
    memory: int


@dataclass(slots=True, eq=False)
class RackRanks:
    """How well each rack suits requests of one size (see `groups`)."""

    ranks: NDArray[np.int64]
    seen: int
    """How many changes of the shelf they take into account."""


class Shelf:
    """The usable nodes of one configuration set, by shape and by number of free devices."""

    __slots__ = (
        "by_count",
        "by_shape",
        "changed",
        "free",
        "kind",
        "members",
        "per_rack",
        "ranks",
        "sample",
        "table",
    )

    def __init__(self, kind: ConfigurationSet, racks: int) -> None:
        self.kind = kind
        self.table: ChoiceTable = choice_table(kind.layers, kind.devices)
        self.members = 0
        self.free = 0
        """Free devices on all members."""
        self.by_shape: dict[int, int] = {}
        self.sample: dict[int, int] = {}
        """For each shape, one bitmap of that shape."""
        self.by_count = [0] * (kind.devices + 1)
        self.per_rack: NDArray[np.int64] = np.zeros((racks, MAX_DEVICES + 1), dtype=np.int64)
        """[rack, c]: nodes with exactly c free devices."""
        self.ranks: dict[tuple[int, int, bool], RackRanks] = {}
        """Of racks, by tasks, devices of each, and whether least to spare is best."""
        self.changed: list[int] = []
        """Racks, one for each change since there are ranks."""

    def copy(self) -> "Shelf":
        other = object.__new__(type(self))
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        other.by_shape = self.by_shape.copy()
        other.by_count = self.by_count.copy()
        other.per_rack = self.per_rack.copy()
        other.ranks, other.changed = {}, []
        return other

    def add(self, node: int, free: int, rack: int) -> None:
        bit = 1 << node
        shape = self.table.shape(free)
        self.by_shape[shape] = self.by_shape.get(shape, 0) | bit
        self.sample.setdefault(shape, free)
        devices = free.bit_count()
        self.by_count[devices] |= bit
        self.per_rack[rack, devices] += 1
        self.free += devices
        if self.ranks:
            self.changed.append(rack)

    def remove(self, node: int, free: int, rack: int) -> None:
        bit = 1 << node
        shape = self.table.shape(free)
        self.by_shape[shape] ^= bit
        if not self.by_shape[shape]:
            del self.by_shape[shape]
        devices = free.bit_count()
        self.by_count[devices] ^= bit
        self.per_rack[rack, devices] -= 1
        self.free -= devices
        if self.ranks:
            self.changed.append(rack)


class Board:
    """What is free on each node, by index; `take` and `put_back` undo each other."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        nodes = cluster.nodes
        self.names = [node.name for node in nodes]
        self.usable = [node.state is NodeState.UP for node in nodes]
        self.free = [node.free if node.state is NodeState.UP else 0 for node in nodes]
        self.millicores = [node.millicores for node in nodes]
        self.memory = [node.memory for node in nodes]
        # Two domains may each have a rack of one name.
        places = [(node.domain, node.rack) for node in nodes]
        racks = {key: i for i, key in enumerate(dict.fromkeys(places))}
        self.rack_of = [racks[place] for place in places]
        self.rack_nodes = _masks(self.rack_of, len(racks))
        domains = {key: i for i, key in enumerate(dict.fromkeys(node.domain for node in nodes))}
        domain_of = [domains[node.domain] for node in nodes]
        self.domain_nodes = _masks(domain_of, len(domains))
        self.domain_of_rack = [0] * len(racks)
        for rack, domain in zip(self.rack_of, domain_of, strict=True):
            self.domain_of_rack[rack] = domain
        self.shelves = {name: Shelf(k, len(racks)) for name, k in cluster.configurations.items()}
        self.shelf_of = [self.shelves[node.configuration] for node in nodes]
        self._versions = count(1)
        self.version = 0
        """Changes whenever something is put back: what could not be placed before, now might. Never
        repeats, so that what was tried while something was lifted is not taken for the present."""
        for i in range(len(nodes)):
            self._shelve(i)

    def copy(self) -> "Board":
        other = object.__new__(Board)
        other.__dict__.update(self.__dict__)
        other.free = self.free.copy()
        other.millicores = self.millicores.copy()
        other.memory = self.memory.copy()
        twins = {id(shelf): shelf.copy() for shelf in self.shelves.values()}
        other.shelves = {name: twins[id(shelf)] for name, shelf in self.shelves.items()}
        if len(twins) == 1:
            other.shelf_of = [*twins.values()] * len(self.names)
        else:
            other.shelf_of = [twins[id(shelf)] for shelf in self.shelf_of]
        other._versions = count(1)
        other.version = 0
        return other

    def renew(self, cluster: Cluster, changed: Iterable[int]) -> None:
        """Take the changed nodes, by position, from the cluster; the others are as before."""
        self.cluster = cluster
        for at in changed:
            node = cluster.nodes[at]
            usable = node.state is NodeState.UP
            self.millicores[at], self.memory[at] = node.millicores, node.memory
            if usable and self.usable[at]:
                self._set_free(at, node.free)
            elif usable != self.usable[at]:
                self._turn(at, usable, node.free)

    def _turn(self, node: int, usable: bool, free: int) -> None:
        """Bring a node into use or out of it."""
        shelf = self.shelf_of[node]
        if not usable:
            shelf.remove(node, self.free[node], self.rack_of[node])
            shelf.members &= ~(1 << node)
        self.usable = [*self.usable[:node], usable, *self.usable[node + 1 :]]
        self.free[node] = free if usable else 0
        self._shelve(node)

    def index(self, name: str) -> int:
        return self.cluster.index[name]

    def take(self, slots: Iterable[Slot]) -> None:
        """Mark the slots' devices, cores and memory as used."""
        for node, bits, millicores, memory in self._by_node(slots):
            self._set_free(node, self.free[node] & ~bits)
            self.millicores[node] -= millicores
            self.memory[node] -= memory

    def put_back(self, slots: Iterable[Slot]) -> None:
        """Mark the slots' devices, cores and memory as free again."""
        self.version = next(self._versions)
        for node, bits, millicores, memory in self._by_node(slots):
            if self.usable[node]:
                self._set_free(node, self.free[node] | bits)
            self.millicores[node] += millicores
            self.memory[node] += memory

    def has(self, slots: Iterable[Slot]) -> bool:
        """Return whether all of this is free now."""
        return all(
            not bits & ~self.free[node]
            and millicores <= self.millicores[node]
            and memory <= self.memory[node]
            for node, bits, millicores, memory in self._by_node(slots)
        )

    @contextmanager
    def lifted(self, slots: Iterable[Slot]) -> Iterator[None]:
        """Free these slots inside the `with`; afterwards everything is as before."""
        slots = tuple(slots)
        version = self.version
        self.put_back(slots)
        try:
            yield
        finally:
            self.take(slots)
            self.version = version

    @contextmanager
    def hidden(self, names: Iterable[str]) -> Iterator[None]:
        """Use nothing on these nodes inside the `with`; nothing else may change there meanwhile."""
        nodes = [self.cluster.index[name] for name in names if name in self.cluster.index]
        before = [(node, self.free[node], self.millicores[node], self.memory[node]) for node in nodes]
        for node in nodes:
            self._set_free(node, 0)
            self.millicores[node] = self.memory[node] = -1
        try:
            yield
        finally:
            for node, free, millicores, memory in before:
                self._set_free(node, free)
                self.millicores[node], self.memory[node] = millicores, memory

    def withhold(self, slots: Iterable[Slot]) -> tuple[Withheld, ...]:
        """Set aside what is free of these slots; pass the answer to `restore`."""
        kept = []
        for node, bits, millicores, memory in self._by_node(slots):
            entry = Withheld(
                node,
                self.free[node] & bits,
                min(millicores, self.millicores[node]),
                min(memory, self.memory[node]),
            )
            self._set_free(node, self.free[node] & ~entry.bits)
            self.millicores[node] -= entry.millicores
            self.memory[node] -= entry.memory
            kept.append(entry)
        return tuple(kept)

    def restore(self, kept: Iterable[Withheld]) -> None:
        """Undo a `withhold`."""
        self.version = next(self._versions)
        for entry in kept:
            self._set_free(entry.node, self.free[entry.node] | entry.bits)
            self.millicores[entry.node] += entry.millicores
            self.memory[entry.node] += entry.memory

    def tasks_fitting(self, node: int, need: Need) -> int:
        """Return how many tasks of this need one node could take now."""
        if not self.usable[node]:
            return 0
        return fitting(need, self.free[node].bit_count(), self.millicores[node], self.memory[node])

    def groups(self, level: Level) -> list[int]:
        """Return the sets of nodes that form one group at a level above the node."""
        if level is Level.RACK:
            return self.rack_nodes
        if level is Level.DOMAIN:
            return self.domain_nodes
        return [(1 << len(self.names)) - 1]

    def allowed(self, plan: Plan, kinds: Iterable[str]) -> int:
        """Return where tasks without devices may go: anywhere if the plan has devices, else on these
        configuration sets."""
        if plan.devices:
            return (1 << len(self.names)) - 1
        return sum(self.shelves[kind].members for kind in kinds)

    def group_of(self, node: int, level: Level) -> int:
        """Return which group at a level above the node a node is in."""
        if level is Level.RACK:
            return self.rack_of[node]
        return self.domain_of_rack[self.rack_of[node]] if level is Level.DOMAIN else 0

    def counts(self, level: Level, kinds: tuple[str, ...]) -> NDArray[np.int64]:
        """Return [group, c]: nodes of these configuration sets with exactly c free devices."""
        per_rack = self.shelves[kinds[0]].per_rack
        for kind in kinds[1:]:
            per_rack = per_rack + self.shelves[kind].per_rack
        if level is Level.RACK:
            return per_rack
        if level is Level.DOMAIN:
            per_domain = np.zeros((len(self.domain_nodes), MAX_DEVICES + 1), dtype=np.int64)
            np.add.at(per_domain, self.domain_of_rack, per_rack)
            return per_domain
        whole: NDArray[np.int64] = per_rack.sum(axis=0, keepdims=True)
        return whole

    def free_devices(self, kinds: Iterable[str]) -> int:
        """Return the free devices on nodes of these configuration sets."""
        return sum(self.shelves[kind].free for kind in kinds)

    def fragmentation(self, kinds: Iterable[str]) -> float:
        """Return the fragmentation of these configuration sets."""
        shelves = [self.shelves[kind] for kind in kinds]
        free = sum(shelf.free for shelf in shelves)
        whole = sum(shelf.by_count[-1].bit_count() * shelf.kind.devices for shelf in shelves)
        return fragmentation(free, free - whole)

    def _by_node(self, slots: Iterable[Slot]) -> Iterator[tuple[int, int, int, int]]:
        sums: dict[str, list[int]] = {}
        for slot in slots:
            entry = sums.setdefault(slot.node, [0, 0, 0])
            entry[0] |= slot.bits
            entry[1] += slot.need.millicores
            entry[2] += slot.need.memory
        for name, (bits, millicores, memory) in sums.items():
            yield self.cluster.index[name], bits, millicores, memory

    def _set_free(self, node: int, free: int) -> None:
        old = self.free[node]
        if old == free:
            return
        self.free[node] = free
        shelf, rack = self.shelf_of[node], self.rack_of[node]
        shelf.remove(node, old, rack)
        shelf.add(node, free, rack)

    def _shelve(self, node: int) -> None:
        if self.usable[node]:
            shelf = self.shelf_of[node]
            shelf.members |= 1 << node
            shelf.add(node, self.free[node], self.rack_of[node])


def fitting(need: Need, devices: int, millicores: int, memory: int) -> int:
    """Return how many tasks of this need fit into devices, cores and memory."""
    bounds = []
    if need.devices:
        bounds.append(devices // need.devices)
    if need.millicores:
        bounds.append(millicores // need.millicores)
    if need.memory:
        bounds.append(memory // need.memory)
    return min(bounds, default=UNBOUNDED)


def _masks(group_of: list[int], groups: int) -> list[int]:
    """Return the nodes of each group, built bytewise: setting thousands of bits one by one is slow."""
    buffers = [bytearray((len(group_of) + 7) // 8) for _ in range(groups)]
    for node, group in enumerate(group_of):
        buffers[group][node >> 3] |= 1 << (node & 7)
    return [int.from_bytes(buffer, "little") for buffer in buffers]
