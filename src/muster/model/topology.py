"""The tree a device sits in: levels, links, and equal nodes described once.

Source: Xiao, "All You Need to Know about Scheduling Deep Learning Jobs", section 2: a *configuration
set* holds the device type and the topology of equal nodes, so a node itself is one bitmap.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

MAX_DEVICES = 16
"""Devices per node: the tables of `choice` index all 2**n bitmaps of a node."""


class Level(IntEnum):
    """How far apart two devices are: the narrowest subtree that holds both."""

    DEVICE = 0
    SWITCH = 1
    SOCKET = 2
    NODE = 3
    RACK = 4
    DOMAIN = 5
    CLUSTER = 6

    @property
    def word(self) -> str:
        """The level in files and messages; `any` is the whole cluster."""
        return "any" if self is Level.CLUSTER else self.name.lower()


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link: bandwidth in bytes/s, latency in s."""

    bandwidth: float
    latency: float


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer of the tree inside a node: disjoint groups of devices, and the link inside a group.

    An NVLink group is a layer like any other; its level is that of the narrowest tree level around it.
    """

    level: Level
    groups: tuple[int, ...]
    link: Link


DEFAULT_HOST = Link(3e9, 20e-6)
"""One process over loopback TCP: 2 to 5 GB/s on machines of the last ten years."""


@dataclass(frozen=True, slots=True)
class ConfigurationSet:
    """Equal nodes described once. Layers run from narrow to wide and nest; the last is the node."""

    name: str
    device_type: str
    generation: str
    devices: int
    device_memory: int
    layers: tuple[Layer, ...]
    millicores: int
    memory: int
    nic: Link
    host: Link = DEFAULT_HOST
    """What one process reads or writes through the node's memory."""
    device_rate: float | None = None
    """Operations/s of one device in single precision, if the cluster file states it."""
    device_bandwidth: float | None = None
    """Bytes/s of the device's own memory, if the cluster file states it."""

    @property
    def all_devices(self) -> int:
        """The bitmap of all devices of a node."""
        return (1 << self.devices) - 1

    @property
    def tree(self) -> tuple[Layer, ...]:
        """The layers of the tree, one per level: the widest where there are several."""
        return tuple({layer.level: layer for layer in self.layers}.values())

    @property
    def shortcuts(self) -> tuple[Layer, ...]:
        """Layers beside the tree, such as NVLink: they join devices, not parts of the tree."""
        tree = self.tree
        return tuple(layer for layer in self.layers if layer not in tree)

    def level_of(self, bits: int) -> Level:
        """Return the narrowest level inside the node that holds all these devices."""
        if bits.bit_count() <= 1:
            return Level.DEVICE
        return next(layer.level for layer in self.layers if holds(layer, bits))


def holds(layer: Layer, bits: int) -> bool:
    """Whether one group of the layer holds all these devices."""
    return any(bits & ~group == 0 for group in layer.groups)


def each_bit(bits: int) -> Iterator[int]:
    """Yield the positions of the set bits, lowest first."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low
