"""Whole nodes for a gang over several: by example, and safe whatever stands where."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.cluster import Cluster
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.clear import Candidate
from muster.place.emptied import cheapest_emptying
from muster.place.migrate import Migration, Movable
from tests.builders import cluster, slot, taken
from tests.numbers import name_of, number
from tests.unit.place.asks import ask

WHOLE = 0xFF


def small(name: str, node: str, bits: int, cost: float = 1.0) -> Movable:
    place = slot(node, bits)
    return Movable(Candidate(number(name), (place,), cost), ask(1, need=place.need))


def emptied(there: Cluster, devices: int, widest: Level, *jobs: Movable) -> Migration | None:
    for job in jobs:
        there = taken(there, job.candidate.slots)
    return cheapest_emptying(Board(there), ask(devices, widest), jobs)


def test_the_jobs_of_the_cheapest_nodes_move_to_the_others() -> None:
    jobs = [small(f"j{i}", f"n{i}", 0b1, cost) for i, cost in enumerate((3.0, 1.0, 2.0))]
    found = emptied(cluster(3), 16, Level.CLUSTER, *jobs)
    assert found is not None
    assert found.placement.bits() == {"n1": WHOLE, "n2": WHOLE}
    assert [name_of(move.job) for move in found.moves] == ["j1", "j2"]
    assert {node for move in found.moves for node in move.placement.nodes()} == {"n0"}
    assert found.cost == 3.0


def test_a_node_with_a_job_that_stays_is_left_alone() -> None:
    there = taken(cluster(3), [slot("n0", 0b1)])
    found = emptied(there, 16, Level.CLUSTER, small("a", "n1", 0b1), small("b", "n2", 0b1))
    assert found is not None and found.placement.nodes() == {"n1", "n2"}
    assert emptied(taken(there, [slot("n1", 0b10)]), 16, Level.CLUSTER) is None


def test_nobody_moves_where_there_is_no_room_for_him() -> None:
    assert emptied(cluster(2), 16, Level.CLUSTER, small("a", "n1", 0b1)) is None


def test_the_contract_holds() -> None:
    """One node of each rack could be emptied: enough for a gang that may span racks."""
    there = taken(cluster(4, racks=2), [slot("n0", 0b1), slot("n2", 0b1)])
    jobs = [small("a", "n1", 0b1)]
    assert emptied(there, 16, Level.RACK, *jobs) is None
    assert emptied(there, 16, Level.CLUSTER, *jobs) is not None


@given(
    held=st.lists(st.integers(0, WHOLE), min_size=2, max_size=6),
    stays=st.sets(st.integers(0, 5)),
    devices=st.integers(9, 24),
)
def test_whatever_stands_where_nobody_meets_on_a_device(
    held: list[int], stays: set[int], devices: int
) -> None:
    there = cluster(len(held))
    jobs = [small(f"j{i}", f"n{i}", bits) for i, bits in enumerate(held) if bits and i not in stays]
    for i in stays.intersection(range(len(held))):
        there = taken(there, [slot(f"n{i}", held[i])] if held[i] else [])
    for job in jobs:
        there = taken(there, job.candidate.slots)
    board = Board(there)
    before = list(board.free)
    found = cheapest_emptying(board, ask(devices), jobs)
    assert board.free == before
    if found is None:
        return
    goes = {move.job for move in found.moves}
    for move in found.moves:  # while it moves a job holds both places
        assert board.has(move.placement.slots)
        board.take(move.placement.slots)
    for job in jobs:
        if job.candidate.job in goes:
            board.put_back(job.candidate.slots)
    assert board.has(found.placement.slots)
    left = {node for job in jobs if job.candidate.job not in goes for node in _nodes(job)}
    assert not left & found.placement.nodes()


def _nodes(job: Movable) -> set[str]:
    return {slot.node for slot in job.candidate.slots}
