"""Shapes of nodes for tests: the trees that the choice table must do well on."""

from dataclasses import replace
from itertools import accumulate

from muster.model.choice import ChoiceTable, choice_table
from muster.model.topology import ConfigurationSet, Layer, Level, Link
from tests.builders import node_set

NVLINK = Link(40e9, 2e-6)


def with_nvlink(kind: ConfigurationSet, groups: tuple[int, ...], level: Level) -> ConfigurationSet:
    """The node with NVLink groups, before the tree's own layer of that level."""
    at = [layer.level for layer in kind.layers].index(level)
    layers = (*kind.layers[:at], Layer(level, groups, NVLINK), *kind.layers[at:])
    return replace(kind, layers=layers)


def irregular(*switches: int) -> ConfigurationSet:
    """A node of one socket whose switches hold these numbers of devices."""
    ends = list(accumulate(switches))
    groups = tuple((1 << end) - (1 << (end - n)) for n, end in zip(switches, ends, strict=True))
    plain = node_set(devices=ends[-1], sockets=1, switches=1)
    switch = Layer(Level.SWITCH, groups, Link(25e9, 1e-6))
    socket = Layer(Level.SOCKET, (plain.all_devices,), Link(16e9, 2e-6))
    return replace(plain, layers=(switch, socket, *plain.layers))


EIGHT = node_set()
QUADS = with_nvlink(EIGHT, (0x0F, 0xF0), Level.SOCKET)
PAIRS_ACROSS = with_nvlink(node_set(switches=2), (0b11, 0b1100, 0b110000, 0b11000000), Level.SOCKET)
FOUR = node_set(devices=4)
LAST_LARGE = irregular(2, 2, 4)
FIRST_LARGE = irregular(4, 2, 2)
WIDE_SWITCHES = node_set(devices=16, sockets=2, switches=4)
MANY_SWITCHES = node_set(devices=16, sockets=2, switches=8)

SMALL = {
    "2x2x2": EIGHT,
    "nvlink-quads": QUADS,
    "nvlink-pairs": PAIRS_ACROSS,
    "four": FOUR,
    "2-2-4": LAST_LARGE,
    "4-2-2": FIRST_LARGE,
}
LARGE = {"2x2x4": WIDE_SWITCHES, "2x4x2": MANY_SWITCHES}


def table(kind: ConfigurationSet) -> ChoiceTable:
    """The choice table of this shape."""
    return choice_table(kind.layers, kind.devices)
