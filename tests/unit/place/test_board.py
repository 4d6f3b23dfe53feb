"""The board by example; `tests/prop/test_place.py` holds it against one made again."""

from dataclasses import replace

import pytest

from muster.model.cluster import NodeState
from muster.model.topology import Level
from muster.place.board import Board
from tests.builders import cluster, mixed, node_set, slot
from tests.unit.place.asks import left_free
from tests.unit.place.naive import state_of


def test_taking_and_putting_back_undo_each_other() -> None:
    board = Board(cluster(3))
    before = state_of(board)
    slots = [slot("n0", 0b11), slot("n0", 0b100, 1), slot("n2", 0b1)]
    board.take(slots)
    assert board.free == [0b1111_1000, 0xFF, 0b1111_1110]
    assert board.millicores[0] == 30_000
    board.put_back(slots)
    board.version = 0
    assert state_of(board) == before


def test_what_is_lifted_is_back_afterwards_even_after_an_error() -> None:
    board = Board(cluster(1))
    board.take([slot("n0", 0b1111)])
    before = state_of(board)
    with pytest.raises(KeyError), board.lifted([slot("n0", 0b1111)]):
        assert board.free == [0xFF]
        raise KeyError
    assert state_of(board) == before


def test_no_version_number_comes_twice() -> None:
    board = Board(cluster(1))
    held = [slot("n0", 1)]
    board.take(held)
    began = board.version
    with board.lifted(held):
        while_lifted = board.version
    assert board.version == began
    board.put_back(held)
    assert board.version not in (began, while_lifted)


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.LOST])
def test_what_is_put_back_on_a_node_that_is_not_up_is_not_offered(state: NodeState) -> None:
    there = left_free(cluster(2), 0x0F, 0xFF)
    there = replace(there, nodes=(replace(there.nodes[0], state=state), there.nodes[1]))
    board = Board(there)
    board.put_back([slot("n0", 0xF0)])
    assert board.free == [0, 0xFF]
    assert board.free_devices(["a"]) == 8
    assert board.tasks_fitting(0, slot("n0", 1).need) == 0
    assert board.shelves["a"].members == 0b10


def test_free_devices_are_counted_by_configuration_set() -> None:
    board = Board(mixed((2, node_set()), (1, node_set("b", devices=4))))
    board.take([slot("n0", 0b111)])
    assert board.free_devices(["a"]) == 13
    assert board.free_devices(["a", "b"]) == 17


@pytest.mark.parametrize(
    ("free", "fragmentation"),
    [((0xFF, 0xFF), 0.0), ((0, 0), 0.0), ((0xFF, 0x0F), 4 / 12), ((0x01, 0x7F), 1.0)],
)
def test_fragmentation_is_the_share_of_free_devices_on_partly_used_nodes(
    free: tuple[int, int], fragmentation: float
) -> None:
    assert Board(left_free(cluster(2), *free)).fragmentation(["a"]) == pytest.approx(fragmentation)


def test_groups_of_a_level_hold_every_node_once() -> None:
    board = Board(cluster(8, racks=4, domains=2))
    assert board.groups(Level.RACK) == [0b11, 0b1100, 0b110000, 0b11000000]
    assert board.groups(Level.DOMAIN) == [0x0F, 0xF0]
    assert board.groups(Level.CLUSTER) == [0xFF]


def test_counts_of_a_group_are_the_sums_of_its_racks() -> None:
    board = Board(left_free(cluster(4, racks=4, domains=2), 0xFF, 0b11, 0b1, 0b1))
    assert [row.tolist().index(1) for row in board.counts(Level.RACK, ("a",))] == [8, 2, 1, 1]
    by_domain = board.counts(Level.DOMAIN, ("a",))
    assert by_domain[0, 8] == by_domain[0, 2] == 1
    assert by_domain[1, 1] == 2
    assert board.counts(Level.CLUSTER, ("a",))[0, [1, 2, 8]].tolist() == [2, 1, 1]


def test_a_copy_is_changed_apart() -> None:
    board = Board(mixed((2, node_set("a")), (1, node_set("b", device_type="V100"))))
    before = state_of(board)
    other = board.copy()
    assert state_of(other) == before
    other.take([slot("n0", 0b11), slot("n2", 0b1)])
    assert state_of(board) == before
    board.take([slot("n1", 0b1)])
    assert other.free == [0xFC, 0xFF, 0xFE]


@pytest.mark.parametrize("state", [NodeState.UP, NodeState.DRAINING, NodeState.LOST])
@pytest.mark.parametrize("after", [NodeState.UP, NodeState.DRAINING, NodeState.LOST])
def test_a_renewed_board_is_one_made_anew(state: NodeState, after: NodeState) -> None:
    """n1 goes from one state to another and loses devices, cores and memory on the way."""
    whole = cluster(3, racks=2)
    first, node, last = whole.nodes
    board = Board(replace(whole, nodes=(first, replace(node, state=state), last)))
    changed = replace(node, state=after, free=0b1010, millicores=7_000, memory=5)
    renewed = replace(whole, nodes=(first, changed, last))
    board.renew(renewed, [1])
    assert state_of(board) == state_of(Board(renewed))


def test_a_copy_of_a_board_does_not_see_what_comes_later() -> None:
    """A node is lost after the copy was made: the copy still offers it."""
    whole = cluster(2)
    board = Board(whole)
    other = board.copy()
    lost = replace(whole.nodes[0], state=NodeState.LOST, free=0)
    board.renew(replace(whole, nodes=(lost, whole.nodes[1])), [0])
    assert (board.usable, other.usable) == ([False, True], [True, True])
    assert (board.free, other.free) == ([0, 0xFF], [0xFF, 0xFF])


def test_it_has_what_is_free_and_no_more() -> None:
    board = Board(cluster(2, node_set(devices=4, cores=3)))
    board.take([slot("n0", 0b1)])
    assert board.has([slot("n0", 0b10), slot("n0", 0b100, 1)])
    assert not board.has([slot("n0", 0b1)])
    assert not board.has([slot("n0", 1 << bit, bit) for bit in (1, 2, 3)])  # one core is taken
    assert board.has([slot("n1", 1 << bit, bit) for bit in (1, 2, 3)])
    assert board.has([])
