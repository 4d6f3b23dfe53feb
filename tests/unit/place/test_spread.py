"""Spread by example."""

from muster.model.topology import Level
from muster.place.board import Board
from muster.place.spread import spread
from tests.builders import cluster, mixed, node_set
from tests.unit.place.asks import ask, bits, left_free


def test_one_device_jobs_go_to_one_node_each_then_one_socket_each_then_one_switch_each() -> None:
    board = Board(cluster(2))
    places = []
    for _ in range(8):
        placement = spread(board, ask(1))
        assert placement is not None
        board.take(placement.slots)
        places += [(name, bits.bit_length() - 1) for name, bits in placement.bits().items()]
    assert places[:2] == [("n0", 0), ("n1", 0)]
    assert places[2:4] == [("n0", 4), ("n1", 4)]
    assert sorted(places[4:]) == [("n0", 2), ("n0", 6), ("n1", 2), ("n1", 6)]


def test_a_job_keeps_its_own_devices_together() -> None:
    there = left_free(cluster(2), 0b1111_1110, 0b1111_1110)
    assert bits(spread, there, ask(2)) == {"n0": 0b0011_0000}


def test_an_empty_small_node_is_better_than_a_free_socket_of_a_busy_large_one() -> None:
    there = left_free(mixed((1, node_set()), (1, node_set("b", devices=4))), 0b1111_1000, 0b1111)
    assert set(bits(spread, there, ask(1, kinds=("a", "b")))) == {"n1"}


def test_a_gang_over_nodes_goes_to_the_rack_with_most_room() -> None:
    there = left_free(cluster(6, racks=2), 0xFF, 0xFF, 0, 0xFF, 0xFF, 0xFF)
    assert set(bits(spread, there, ask(16))) <= {"n3", "n4", "n5"}


def test_the_contract_binds_spread_too() -> None:
    there = left_free(cluster(1), 0b0101_0101)
    assert spread(Board(there), ask(2, Level.SWITCH)) is None
    assert spread(Board(there), ask(2, Level.SOCKET)) is not None
