"""Roomy: the emptiest node first, all it has or all that is still needed."""

from muster.model.topology import Level
from muster.place.board import Board
from muster.place.request import Request
from muster.place.roomy import roomy
from muster.planner.counts import plan_for
from tests.builders import cluster, job, mixed, node_set, slot, taken

FOUR = node_set(devices=4)


def ask(
    workers: int, widest: Level = Level.CLUSTER, kinds: tuple[str, ...] = ("a",), **more: int
) -> Request:
    return Request(plan_for(job("j", workers, **more), workers), kinds, widest)  # type: ignore[arg-type]


def bits(board: Board, request: Request) -> dict[str, int] | None:
    placed = roomy(board, request)
    return None if placed is None else {n: b.bit_count() for n, b in placed.bits().items()}


def held(*counts: int) -> Board:
    """A board of nodes of four, of which this many devices are held on each."""
    slots = [slot(f"n{i}", 1 << b) for i, count in enumerate(counts) for b in range(count)]
    return Board(taken(cluster(len(counts), FOUR), slots))


def test_the_emptiest_node_is_filled_first_and_of_equals_the_first() -> None:
    assert bits(held(1, 0, 2, 0), ask(2)) == {"n1": 2}


def test_then_the_next_emptiest() -> None:
    """4 of n1, then 3 of n0, then 1 of n2's 2."""
    assert bits(held(1, 0, 2), ask(8)) == {"n1": 4, "n0": 3, "n2": 1}


def test_it_does_not_look_for_a_snug_place() -> None:
    """One worker would fit the gap on n0; it goes to the empty node all the same."""
    assert bits(held(3, 0), ask(1)) == {"n1": 1}


def test_too_much_is_refused() -> None:
    assert bits(held(1, 1), ask(7)) is None


def test_a_contract_keeps_it_in_one_rack() -> None:
    board = Board(cluster(4, FOUR, racks=2))
    assert bits(board, ask(8, Level.RACK)) == {"n0": 4, "n1": 4}
    assert bits(board, ask(9, Level.RACK)) is None


def test_inside_a_node_it_packs() -> None:
    assert bits(held(0, 2), ask(2, Level.NODE)) == {"n1": 2}
    assert bits(held(1, 2), ask(4, Level.NODE)) is None


def test_only_the_kinds_asked_for() -> None:
    board = Board(mixed((1, FOUR), (1, node_set("b", device_type="V100", devices=8))))
    assert bits(board, ask(4)) == {"n0": 4}
    assert bits(board, ask(4, kinds=("a", "b"))) == {"n1": 4}


def test_servers_without_devices_find_a_place_too() -> None:
    placed = roomy(held(0, 0), ask(4, servers=2))
    assert placed is not None
    assert len(placed.slots) == 6
