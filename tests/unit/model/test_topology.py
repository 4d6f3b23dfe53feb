"""Levels and links inside a node, and the span of several."""

import pytest

from muster.model.cluster import span
from muster.model.topology import Level, each_bit
from tests.builders import cluster, node_set
from tests.unit.model.shapes import EIGHT, QUADS, WIDE_SWITCHES, table


@pytest.mark.parametrize(
    ("bits", "level"),
    [
        (0, Level.DEVICE),
        (0b1000, Level.DEVICE),
        (0b11, Level.SWITCH),
        (0b101, Level.SOCKET),
        (0b10001, Level.NODE),
        (0xFF, Level.NODE),
    ],
)
def test_devices_are_as_far_apart_as_the_narrowest_group_that_holds_them(
    bits: int, level: Level
) -> None:
    assert EIGHT.level_of(bits) is level
    assert table(EIGHT).level_of(bits) is level


def test_the_table_and_the_configuration_set_agree_on_every_level() -> None:
    for kind in (EIGHT, QUADS):
        assert all(kind.level_of(b) is table(kind).level_of(b) for b in range(kind.all_devices + 1))
    for bits in range(0, 1 << 16, 37):
        assert WIDE_SWITCHES.level_of(bits) is table(WIDE_SWITCHES).level_of(bits)


def test_each_bit_counts_from_the_lowest() -> None:
    assert list(each_bit(0b1010_0001)) == [0, 5, 7]
    assert list(each_bit(0)) == []


@pytest.mark.parametrize(
    ("names", "level"),
    [
        ({"n0"}, Level.NODE),
        ({"n0", "n1"}, Level.RACK),
        ({"n0", "n2"}, Level.DOMAIN),
        ({"n0", "n7"}, Level.CLUSTER),
    ],
)
def test_nodes_span_the_narrowest_part_of_the_network_that_holds_them(
    names: set[str], level: Level
) -> None:
    there = cluster(8, node_set(), racks=4, domains=2)
    assert span(there, names) is level


def test_the_whole_cluster_is_called_any_in_files() -> None:
    assert [level.word for level in Level][-2:] == ["domain", "any"]
