"""Racks in the order in which a gang would rather have them."""

from random import Random

import pytest

from muster.model.cluster import Cluster, Node
from muster.model.job import Need, Role
from muster.model.placement import Slot
from muster.model.plan import Part, Plan
from muster.model.topology import Level, each_bit
from muster.place.board import Board
from muster.place.groups import ranked_groups
from muster.place.request import Request
from tests.builders import LINKS, node_set

KIND = node_set("a", devices=8, cores=64, memory=64)
SIZES = ((3, 1), (12, 1), (5, 2), (3, 4))
"""Tasks, and the devices of each."""


def half_full(racks: int, random: Random) -> Cluster:
    """Return a cluster with three nodes in each rack."""
    nodes = tuple(
        Node(f"n{i}", KIND.name, f"r{i % racks}", "d", random.getrandbits(8), 64_000, 64)
        for i in range(3 * racks)
    )
    return Cluster("half-full", {KIND.name: KIND}, nodes, LINKS)


def asking(tasks: int, devices: int) -> Request:
    return Request(Plan((Part(Role.WORKER, tasks, Need(devices)),)), (KIND.name,))


def by_hand(board: Board, tasks: int, devices: int, *, tight: bool) -> list[tuple[int, int]]:
    """Fewest nodes first, then least room or most, then the first."""
    found = []
    for mask in board.rack_nodes:
        each = sorted((board.free[n].bit_count() // devices for n in each_bit(mask)), reverse=True)
        if sum(each) >= tasks:
            nodes = next(n for n in range(1, len(each) + 1) if sum(each[:n]) >= tasks)
            found.append((nodes, sum(each) if tight else -sum(each), mask))
    found.sort(key=lambda one: one[:2])
    return [(nodes, mask) for nodes, _, mask in found]


@pytest.mark.parametrize("racks", [2, 40])
@pytest.mark.parametrize("tight", [True, False])
def test_racks_are_ranked_by_what_is_free_there_now(racks: int, tight: bool) -> None:
    random = Random(3)
    board, held = Board(half_full(racks, random)), list[Slot]()
    for _ in range(60):
        if held and random.random() < 0.4:
            board.put_back([held.pop(random.randrange(len(held)))])
        else:
            node = random.randrange(len(board.names))
            bits = board.free[node] & random.getrandbits(8)
            held.append(Slot(Role.WORKER, 0, board.names[node], bits, Need(bits.bit_count())))
            board.take(held[-1:])
        for tasks, devices in random.sample(SIZES, 2):
            ranked = list(ranked_groups(board, asking(tasks, devices), Level.RACK, tight=tight))
            assert ranked == by_hand(board, tasks, devices, tight=tight)


def test_a_copy_of_a_board_ranks_racks_by_itself() -> None:
    board = Board(half_full(20, Random(5)))
    request = asking(12, 1)
    before = list(ranked_groups(board, request, Level.RACK, tight=True))
    other = board.copy()
    everything = [
        Slot(Role.WORKER, 0, name, bits, Need(bits.bit_count()))
        for name, bits in zip(other.names, other.free, strict=True)
    ]
    other.take(everything)
    assert not list(ranked_groups(other, request, Level.RACK, tight=True))
    assert list(ranked_groups(board, request, Level.RACK, tight=True)) == before
