"""The choice table by example; `tests/prop/test_choice.py` holds it against all subsets."""

import pytest

from muster.model.choice import Choice, ChoiceTable
from muster.model.topology import ConfigurationSet, Level
from tests.counting import calls
from tests.unit.model.shapes import (
    EIGHT,
    FIRST_LARGE,
    FOUR,
    LAST_LARGE,
    MANY_SWITCHES,
    QUADS,
    WIDE_SWITCHES,
    table,
)


def packed(kind: ConfigurationSet, free: int, k: int) -> Choice:
    choice = table(kind).pack(free, k)
    assert choice is not None
    return choice


def test_two_devices_come_from_one_switch_even_if_that_breaks_the_only_whole_socket() -> None:
    choice = packed(EIGHT, 0b1111_1010, 2)
    assert (choice.bits, choice.level) == (0b0011_0000, Level.SWITCH)


def test_one_device_comes_from_the_switch_that_is_broken_already() -> None:
    assert packed(EIGHT, 0b1111_0111, 1).bits == 0b0000_0100


def test_two_devices_leave_the_untouched_socket_whole() -> None:
    assert packed(EIGHT, 0b1111_0011, 2).bits == 0b0000_0011


def test_three_devices_stay_on_one_socket() -> None:
    assert packed(EIGHT, 0b1110_0110, 3).level is Level.SOCKET


@pytest.mark.parametrize(
    ("kind", "bits"), [(LAST_LARGE, 0b0000_0001), (FIRST_LARGE, 0b0001_0000)], ids=["2-2-4", "4-2-2"]
)
def test_one_device_comes_from_a_small_switch_so_that_the_large_one_stays_whole(
    kind: ConfigurationSet, bits: int
) -> None:
    assert packed(kind, 0xFF, 1).bits == bits


def test_four_devices_joined_by_nvlink_are_closer_than_four_of_a_plain_socket() -> None:
    joined, plain = packed(QUADS, 0xFF, 4), packed(EIGHT, 0xFF, 4)
    assert joined.level is plain.level is Level.SOCKET
    assert joined.distance < plain.distance


def test_a_node_with_more_layers_does_not_look_wider() -> None:
    whole, plain = packed(QUADS, 0xFF, 8), packed(EIGHT, 0xFF, 8)
    assert whole.distance < plain.distance
    assert packed(FOUR, 0xF, 2).distance > packed(EIGHT, 0xFF, 2).distance


def test_no_device_asked_is_an_empty_choice() -> None:
    assert packed(EIGHT, 0, 0) == Choice(0, Level.DEVICE, 0, 0)


@pytest.mark.parametrize("k", [3, 9, 100])
def test_more_than_is_free_is_no_choice(k: int) -> None:
    assert table(EIGHT).pack(0b11, k) is None
    assert table(EIGHT).spread(0b11, k) is None
    assert table(EIGHT).beside(0b11, 0b100, k) is None


def test_spread_keeps_away_from_a_busy_switch_then_from_a_busy_socket() -> None:
    free = 0b1111_1110
    choice = table(EIGHT).spread(free, 1)
    assert choice is not None
    assert choice.bits & 0b1111_0000
    assert choice.neighbours == 0
    last_on_a_free_switch = table(EIGHT).spread(0b0000_1110, 1)
    assert last_on_a_free_switch is not None
    assert last_on_a_free_switch.bits & 0b0000_1100


def test_beside_finishes_the_switch_that_is_half_held() -> None:
    choice = table(EIGHT).beside(0b1111_1110, 0b0000_0001, 1)
    assert choice is not None
    assert (choice.bits, choice.level) == (0b0000_0010, Level.SWITCH)


@pytest.mark.parametrize("kind", [WIDE_SWITCHES, MANY_SWITCHES], ids=["wide", "many"])
def test_a_table_of_sixteen_devices_is_built_and_asked_without_a_look_at_each_bitmap(
    kind: ConfigurationSet,
) -> None:
    def build_and_ask() -> None:
        fresh = ChoiceTable(kind.layers, kind.devices)
        for k in range(17):
            fresh.pack(0xFFFF, k)
            fresh.spread(0x7BDE, k)

    assert calls(build_and_ask) < (1 << 16) / 8


def test_a_node_without_devices_has_one_shape_and_nothing_to_choose() -> None:
    empty = ChoiceTable((), 0)
    assert empty.pack(0, 1) is None
    assert empty.shape(0) == empty.shape(0)
