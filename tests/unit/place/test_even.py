"""Even by example."""

from muster.model.job import Need
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.even import even
from tests.builders import cluster, mixed, node_set
from tests.unit.place.asks import ask, bits, left_free, placed, tasks, with_cores

FOUR = node_set(devices=4)


def test_what_fits_on_one_node_stays_there() -> None:
    assert tasks(placed(even, cluster(3), ask(4, servers=2))) == {"n0": "wwwwss"}


def test_workers_and_servers_are_dealt_equally_to_the_fewest_nodes() -> None:
    placement = placed(even, cluster(4, FOUR), ask(6, servers=4))
    assert tasks(placement) == {"n0": "wwwss", "n1": "wwwss"}


def test_the_odd_worker_and_the_odd_server_go_to_different_nodes() -> None:
    placement = placed(even, cluster(4, FOUR), ask(5, servers=3))
    assert tasks(placement) == {"n0": "wwws", "n1": "wwss"}


def test_odd_tasks_come_together_where_only_that_fits() -> None:
    there = with_cores(left_free(cluster(2, FOUR), 0b1111, 0b0011), 8, 3)
    assert tasks(placed(even, there, ask(5, servers=3))) == {"n0": "wwwss", "n1": "wws"}


def test_fewer_nodes_in_two_racks_are_better_than_more_in_one() -> None:
    there = left_free(cluster(6, FOUR, racks=2), 15, 3, 3, 15, 3, 3)
    assert bits(even, there, ask(6)) == {"n0": 0b0111, "n3": 0b0111}
    assert len(bits(even, there, ask(6, Level.RACK))) == 3


def test_servers_may_lie_on_nodes_without_devices_of_their_own() -> None:
    there = mixed((1, node_set(devices=4, cores=4)), (1, node_set("cpu", devices=0, cores=4)))
    request = ask(1, need=Need(4, 4_000), servers=1, server=Need(0, 4_000))
    assert tasks(placed(even, there, request)) == {"n0": "w", "n1": "s"}


def test_a_job_that_cannot_be_split_evenly_is_packed_rather_than_left_waiting() -> None:
    there = left_free(cluster(2), 0xFF, 0b1)
    assert {n: b.bit_count() for n, b in bits(even, there, ask(9)).items()} == {"n0": 8, "n1": 1}


def test_a_node_that_only_one_share_fits_on_is_kept_for_it() -> None:
    there = with_cores(cluster(3, FOUR), 1, 2, 2)
    placement = placed(even, there, ask(5, need=Need(1, 1_000)))
    assert sorted(tasks(placement).values()) == ["w", "ww", "ww"]


def test_a_job_without_devices_is_dealt_evenly_too() -> None:
    there = mixed((3, node_set("cpu", devices=0, cores=4)))
    request = ask(6, need=Need(0, 1_000), kinds=("cpu",))
    assert tasks(placed(even, there, request)) == {"n0": "www", "n1": "www"}


def test_what_does_not_fit_has_no_place() -> None:
    assert even(Board(cluster(2)), ask(17)) is None
    assert even(Board(cluster(2)), ask(9, Level.NODE)) is None
