"""Migration by example."""

from dataclasses import replace

from muster.model.cluster import Cluster
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.clear import Candidate
from muster.place.migrate import Migration, Movable, cheapest_migration
from tests.builders import cluster, slot, taken
from tests.numbers import name_of, number
from tests.unit.place.asks import ask, with_cores


def small(
    name: str, node: str, bits: int, *, cost: float = 1.0, widest: Level = Level.CLUSTER
) -> Movable:
    """A job of one worker that holds these devices and may go anywhere its contract allows."""
    place = slot(node, bits)
    return Movable(Candidate(number(name), (place,), cost), ask(1, widest, need=place.need))


def migrated(there: Cluster, devices: int, widest: Level, *jobs: Movable) -> Migration | None:
    for job in jobs:
        there = taken(there, job.candidate.slots)
    return cheapest_migration(Board(there), ask(devices, widest), jobs)


def test_a_small_job_moves_to_the_fuller_node_so_that_a_whole_node_is_free() -> None:
    found = migrated(cluster(2), 8, Level.NODE, small("a", "n0", 1), small("b", "n1", 0b11, cost=2))
    assert found is not None
    assert [(name_of(move.job), move.placement.bits()) for move in found.moves] == [
        ("a", {"n1": 0b100})
    ]
    assert found.placement.bits() == {"n0": 0xFF}
    assert found.cost == 1


def test_the_cheaper_job_moves_even_if_it_is_the_larger() -> None:
    found = migrated(cluster(2), 8, Level.NODE, small("a", "n0", 1, cost=5), small("b", "n1", 0b11))
    assert found is not None
    assert [name_of(move.job) for move in found.moves] == ["b"]
    assert found.placement.bits() == {"n1": 0xFF}


def test_a_job_moves_within_its_node_to_free_a_socket() -> None:
    found = migrated(cluster(1), 4, Level.SOCKET, small("a", "n0", 0b1), small("b", "n0", 0b1_0000))
    assert found is not None
    assert [(name_of(m.job), m.placement.bits()) for m in found.moves] == [("a", {"n0": 0b10_0000})]
    assert found.placement.bits() == {"n0": 0x0F}


def test_nobody_moves_if_those_who_must_go_have_no_other_place() -> None:
    assert migrated(cluster(1), 8, Level.NODE, small("a", "n0", 1)) is None


def test_nobody_moves_onto_devices_that_another_is_leaving() -> None:
    jobs = [small("a", "n0", 0x0F), small("b", "n1", 0x0F), small("c", "n1", 0xF0)]
    assert migrated(cluster(2), 8, Level.NODE, *jobs) is None


def test_a_job_whose_contract_is_a_switch_moves_to_a_switch_only() -> None:
    there = taken(cluster(2), [slot("n1", 0b0101_0101)])
    fussy, easy = (small("pair", "n0", 0b11, widest=w) for w in (Level.SWITCH, Level.SOCKET))
    assert migrated(there, 8, Level.NODE, fussy) is None
    found = migrated(there, 8, Level.NODE, easy)
    assert found is not None
    assert found.moves[0].placement.bits() == {"n1": 0b0000_1010}


def test_cores_for_the_moved_job_must_be_free_while_it_still_holds_the_old_ones() -> None:
    jobs = [small("a", "n0", 1)]
    assert migrated(with_cores(cluster(2), 8, 1), 8, Level.NODE, *jobs) is not None
    assert migrated(with_cores(cluster(2), 8, 0), 8, Level.NODE, *jobs) is None


def test_migration_never_makes_the_cluster_more_fragmented_for_a_gang_of_a_whole_node() -> None:
    there = cluster(3)
    jobs = [small("a", "n0", 1), small("b", "n1", 1), small("c", "n2", 0xFF, cost=9)]
    for job in jobs:
        there = taken(there, job.candidate.slots)
    board = Board(there)
    before = board.fragmentation(["a"])
    found = cheapest_migration(board, ask(8, Level.NODE), jobs)
    assert found is not None
    by_job = {job.candidate.job: job.candidate for job in jobs}
    for move in found.moves:
        board.put_back(by_job[move.job].slots)
        board.take(move.placement.slots)
    assert board.fragmentation(["a"]) < before


def test_a_gang_that_fits_already_moves_nobody() -> None:
    found = migrated(cluster(2), 8, Level.NODE, small("a", "n0", 1))
    assert found is not None
    assert found.moves == ()
    assert found.placement.bits() == {"n1": 0xFF}


def test_equal_questions_get_equal_answers() -> None:
    jobs = [replace(small(f"j{i}", f"n{i}", 1), request=ask(1)) for i in range(4)]
    answers = {migrated(cluster(4), 8, Level.NODE, *jobs) for _ in range(3)}
    assert len(answers) == 1
