"""The best k free devices of a bitmap: one table per configuration set, shared by all its nodes.

Every bitmap of a node is an index into a few arrays of 2**n entries (n <= 16), filled once. The answer
for (free bitmap, k) is one masked scan of the k-subsets, presorted by closeness, and is cached; nothing
is computed per node.

Two rules choose among the k-subsets of the free devices:

* pack: closest together; ties: leave the largest whole subtree free;
* spread: closest together; ties: fewest busy neighbours under the same switch, then socket
  (Xiao, section 3.2: jobs below one switch slow each other most).
"""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from muster.model.topology import Layer, Level, each_bit

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Choice:
    """Chosen devices, the narrowest level that holds them, and their busy neighbours."""

    bits: int
    level: Level
    distance: int
    """How far apart (`_apart`) the widest pair is, then the sum over all pairs: smaller is closer.
    Comparable between configuration sets."""
    neighbours: int
    """Busy devices below the switches in use, then the sockets in use (two base-32 digits)."""


class ChoiceTable:
    """Answers `pack` and `spread` for one shape of node."""

    def __init__(self, layers: tuple[Layer, ...], devices: int) -> None:
        self._layers = layers
        self._devices = devices
        # Of several layers of one level the last is the tree's own; the others are NVLink groups.
        self._tree = {layer.level: layer.groups for layer in layers}
        masks = np.arange(1 << devices, dtype=np.int64)
        self._distance = _distances(layers, devices)
        self._whole = _whole_subtrees(layers, masks)
        sizes = np.bitwise_count(masks)
        self._subsets = [self._by_distance(masks[sizes == k]) for k in range(devices + 1)]
        self._packed: dict[tuple[int, int], Choice | None] = {}
        self._spread: dict[tuple[int, int], Choice | None] = {}
        self._beside: dict[tuple[int, int, int], Choice | None] = {}
        self._shapes: dict[int, int] = {}
        self._shape_ids: dict[object, int] = {}

    def pack(self, free: int, k: int) -> Choice | None:
        """Return the closest k free devices that leave the largest whole subtree free."""
        key = (free, k)
        if key not in self._packed:
            self._packed[key] = self._choose(free, k, spread=False)
        return self._packed[key]

    def spread(self, free: int, k: int) -> Choice | None:
        """Return the closest k free devices with the fewest busy neighbours."""
        key = (free, k)
        if key not in self._spread:
            self._spread[key] = self._choose(free, k, spread=True)
        return self._spread[key]

    def beside(self, free: int, held: int, k: int) -> Choice | None:
        """Return the k free devices closest to each other and to those already held."""
        key = (free, held, k)
        if key not in self._beside:
            self._beside[key] = self._join(free, held, k)
        return self._beside[key]

    def shape(self, free: int) -> int:
        """Return a number shared by bitmaps that differ only by swapping equal subtrees."""
        if free not in self._shapes:
            key = self._shape_key(free, len(self._layers) - 1, (1 << self._devices) - 1)
            self._shapes[free] = self._shape_ids.setdefault(key, len(self._shape_ids))
        return self._shapes[free]

    def level_of(self, bits: int) -> Level:
        """Return the narrowest level inside the node that holds all these devices."""
        widest = int(self._distance[bits]) >> _PAIR_BITS
        return Level(-(-widest // _PER_LEVEL))

    def _by_distance(self, subsets: Ints) -> Ints:
        return subsets[np.argsort(self._distance[subsets], kind="stable")]

    def _choose(self, free: int, k: int, *, spread: bool) -> Choice | None:
        if k > free.bit_count():
            return None
        subsets = self._subsets[k]
        fitting = subsets[(subsets & ~free) == 0]
        distances = self._distance[fitting]
        # Pack compares pairs too; for spread the same widest layer is enough.
        closeness = distances >> _PAIR_BITS if spread else distances
        fitting = fitting[closeness == closeness[0]]
        neighbours = self._neighbours(fitting, free)
        rank = neighbours if spread else -self._whole[free & ~fitting]
        best = int(np.argmin(rank))
        bits = int(fitting[best])
        return Choice(bits, self.level_of(bits), int(self._distance[bits]), int(neighbours[best]))

    def _join(self, free: int, held: int, k: int) -> Choice | None:
        if k > free.bit_count():
            return None
        fitting = self._subsets[k]
        fitting = fitting[(fitting & ~free) == 0]
        joined = fitting | held
        rank = np.lexsort((-self._whole[free & ~fitting], self._distance[joined]))
        bits, whole = int(fitting[rank[0]]), int(joined[rank[0]])
        return Choice(bits, self.level_of(whole), int(self._distance[whole]), 0)

    def _neighbours(self, subsets: Ints, free: int) -> Ints:
        counts = np.zeros(len(subsets), dtype=np.int64)
        for level, weight in ((Level.SWITCH, 32), (Level.SOCKET, 1)):
            for group in self._tree.get(level, ()):
                busy = (group & ~free).bit_count()
                counts += weight * busy * ((subsets & group) != 0)
        return counts

    def _shape_key(self, free: int, depth: int, group: int) -> object:
        if depth < 0:
            return free & group != 0
        below = [g for g in (self._layers[depth - 1].groups if depth else ()) if g & ~group == 0]
        loose = group & ~sum(below)
        parts = [self._shape_key(free, depth - 1, g) for g in below]
        return (depth, (free & loose).bit_count(), loose.bit_count(), tuple(sorted(parts, key=repr)))


_PER_LEVEL = 4
"""Layers of one level: the tree's own and up to three of NVLink groups."""
_PAIR_BITS = 12
"""Room for the sum over pairs: at most 120 pairs of 16 devices, each at most 4 x 3: under 2**12."""


def _apart(layers: tuple[Layer, ...]) -> list[int]:
    """Return how far apart devices joined by each layer are: by level, less within NVLink groups.

    The level counts, not the layer's position: a node with more layers must not look wider.
    """
    levels = [layer.level for layer in layers]
    return [_PER_LEVEL * level - levels[i + 1 :].count(level) for i, level in enumerate(levels)]


def _distances(layers: tuple[Layer, ...], devices: int) -> Ints:
    """For each bitmap: (widest pair, sum over pairs) of the distances."""
    joined = np.zeros((devices, devices), dtype=np.int64)
    for apart, layer in reversed(list(zip(_apart(layers), layers, strict=True))):
        for group in layer.groups:
            members = list(each_bit(group))
            joined[np.ix_(members, members)] = apart
    pairs = np.zeros(1 << devices, dtype=np.int64)
    widest = np.zeros(1 << devices, dtype=np.int64)
    for high in range(devices):
        size = 1 << high
        row_sum = np.zeros(size, dtype=np.int64)
        row_max = np.zeros(size, dtype=np.int64)
        for low in range(high):
            part = slice(1 << low, 1 << (low + 1))
            row_sum[part] = row_sum[: 1 << low] + joined[high, low]
            row_max[part] = np.maximum(row_max[: 1 << low], joined[high, low])
        pairs[size : 2 * size] = pairs[:size] + row_sum
        widest[size : 2 * size] = np.maximum(widest[:size], row_max)
    return (widest << _PAIR_BITS) + pairs


def _whole_subtrees(layers: tuple[Layer, ...], masks: Ints) -> Ints:
    """For each bitmap: the whole groups in it, one larger group before all smaller ones."""
    score = np.zeros(len(masks), dtype=np.int64)
    weight = 1
    groups = {group for layer in layers for group in layer.groups}
    for size in sorted({group.bit_count() for group in groups}):
        alike = [group for group in groups if group.bit_count() == size]
        for group in alike:
            score += np.int64(weight) * ((masks & group) == group)
        weight *= len(alike) + 1
    return score


@cache
def choice_table(layers: tuple[Layer, ...], devices: int) -> ChoiceTable:
    """Return the table of this shape of node, built on first use."""
    return ChoiceTable(layers, devices)
