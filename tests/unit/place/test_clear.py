"""Clearing by example; `tests/prop/test_place.py` holds it against all sets."""

from muster.model.cluster import Cluster
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.clear import Candidate, Clearing, cheapest_clearing
from muster.place.request import Request
from tests.builders import cluster, node_set, slot, taken
from tests.numbers import name_of, number
from tests.unit.place.asks import ask


def holder(name: str, cost: float, *places: tuple[str, int]) -> Candidate:
    slots = tuple(slot(node, bits, i) for i, (node, bits) in enumerate(places))
    return Candidate(number(name), slots, cost)


def cleared(there: Cluster, request: Request, *held: Candidate) -> Clearing | None:
    for each in held:
        there = taken(there, each.slots)
    return cheapest_clearing(Board(there), request, held)


def names(clearing: Clearing | None) -> set[str]:
    assert clearing is not None
    return {name_of(candidate.job) for candidate in clearing.removed}


def test_two_cheap_jobs_go_rather_than_one_dear_one() -> None:
    held = [
        holder("dear", 10, ("n0", 0b1111)),
        holder("cheap", 4, ("n0", 0b11_0000)),
        holder("also cheap", 5, ("n0", 0b1100_0000)),
    ]
    clearing = cleared(cluster(1), ask(4, Level.NODE), *held)
    assert names(clearing) == {"cheap", "also cheap"}
    assert clearing is not None
    assert clearing.cost == 9
    assert clearing.placement.bits() == {"n0": 0xF0}


def test_the_contract_decides_who_has_to_go() -> None:
    held = [holder(f"j{i}", 1 + i / 10, ("n0", 1 << i)) for i in range(0, 8, 2)]
    assert names(cleared(cluster(1), ask(2, Level.SWITCH), *held)) == {"j0"}
    assert names(cleared(cluster(1), ask(4, Level.SOCKET), *held)) == {"j0", "j2"}


def test_the_node_that_is_cheapest_to_clear_is_cleared() -> None:
    held = [holder("dear", 9, ("n0", 0xFF)), holder("cheap", 8, ("n1", 0xFF))]
    clearing = cleared(cluster(2), ask(8, Level.NODE), *held)
    assert names(clearing) == {"cheap"}


def test_nothing_goes_if_there_is_room_already() -> None:
    held = [holder("lucky", 1, ("n0", 0b1))]
    for widest in (Level.NODE, Level.RACK):
        assert names(cleared(cluster(2), ask(8, widest), *held)) == set()


def test_what_is_not_offered_stays() -> None:
    there = taken(cluster(1), holder("fixed", 0, ("n0", 0b1)).slots)
    held = holder("cheap", 1, ("n0", 0b10))
    assert cleared(there, ask(8, Level.NODE), held) is None


def test_a_clearing_that_is_not_accepted_gives_way_to_the_next_cheapest() -> None:
    there = cluster(2)
    held = [holder("first", 1, ("n0", 0xFF)), holder("second", 2, ("n1", 0xFF))]
    for each in held:
        there = taken(there, each.slots)
    clearing = cheapest_clearing(
        Board(there), ask(8, Level.NODE), held, lambda c: "first" not in names(c)
    )
    assert names(clearing) == {"second"}


def test_over_nodes_whoever_turns_out_not_to_be_needed_is_spared() -> None:
    kind = node_set(devices=4)
    held = [
        holder("small", 1, ("n0", 0b1)),
        holder("large", 8, ("n1", 0b1111)),
        holder("other", 9, ("n2", 0b1111)),
    ]
    there = cluster(3, kind)
    assert names(cleared(there, ask(7, Level.RACK), *held)) == {"large"}


def test_a_job_that_spans_nodes_goes_as_a_whole() -> None:
    held = [holder("wide", 5, ("n0", 0x0F), ("n1", 0x0F))]
    clearing = cleared(cluster(2), ask(8, Level.NODE), *held)
    assert names(clearing) == {"wide"}
    assert clearing is not None
    assert clearing.placement.bits() == {"n0": 0xFF}
