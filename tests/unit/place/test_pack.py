"""Pack by example."""

from dataclasses import replace

import pytest

from muster.model.cluster import NodeState
from muster.model.job import Need
from muster.model.plan import Plan
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.pack import pack
from muster.place.request import Request
from tests.builders import GB, cluster, mixed, node_set
from tests.unit.model.shapes import QUADS
from tests.unit.place.asks import ask, bits, left_free, placed, tasks, with_cores

FOUR = node_set(devices=4)


def test_two_devices_go_to_one_switch_though_a_fuller_node_has_two_apart() -> None:
    there = left_free(cluster(3), 0b0001_0001, 0b0000_0101, 0b1111_0011)
    assert bits(pack, there, ask(2)) == {"n2": 0b0000_0011}


def test_without_a_free_switch_they_go_to_one_socket() -> None:
    there = left_free(cluster(2), 0b0001_0001, 0b1010_1010)
    assert bits(pack, there, ask(2)) == {"n1": 0b0000_1010}


def test_of_equally_close_places_the_fullest_node_is_taken() -> None:
    there = left_free(cluster(3), 0b1111_1111, 0b0000_0111, 0b0000_1111)
    assert bits(pack, there, ask(1)) == {"n1": 0b0000_0100}


def test_of_equal_nodes_the_first_is_taken() -> None:
    assert bits(pack, cluster(3), ask(8)) == {"n0": 0xFF}


def test_nvlink_is_closer_than_a_plain_socket() -> None:
    there = mixed((1, replace(QUADS, name="b")), (1, node_set("a")))
    assert bits(pack, there, ask(4, kinds=("a", "b"))) == {"n0": 0x0F}
    assert bits(pack, there, ask(8, kinds=("a", "b"))) == {"n0": 0xFF}


def test_a_rack_that_holds_the_gang_on_fewest_nodes_is_taken() -> None:
    there = left_free(cluster(6, FOUR, racks=2), 0b11, 0b11, 0b11, 0b1111, 0b11, 0b11)
    placement = placed(pack, there, ask(6))
    assert placement.bits() == {"n3": 0b1111, "n4": 0b11}


def test_the_last_node_is_the_one_with_least_to_spare_even_if_it_is_the_first_of_the_cluster() -> None:
    there = left_free(cluster(3, FOUR), 0b0011, 0b1111, 0b1111)
    assert bits(pack, there, ask(6)) == {"n0": 0b0011, "n1": 0b1111}


def test_nodes_whose_cores_allow_most_tasks_are_taken_first() -> None:
    there = with_cores(cluster(4, FOUR), 1, 1, 3, 3)
    assert set(bits(pack, there, ask(6))) == {"n2", "n3"}


def test_a_rack_whose_cores_allow_fewer_nodes_is_taken() -> None:
    there = with_cores(cluster(6, FOUR, racks=2), 2, 2, 1, 4, 1, 1)
    assert set(bits(pack, there, ask(5))) == {"n3", "n4"}


def test_a_server_with_devices_goes_beside_the_workers_if_there_is_room() -> None:
    there = left_free(cluster(3, FOUR), 0b1111, 0b1111, 0b0001)
    request = ask(3, need=Need(devices=2), servers=1, server=Need(devices=1))
    assert tasks(placed(pack, there, request)) == {"n0": "ww", "n1": "ws"}


def test_servers_without_devices_go_beside_the_workers_then_to_nodes_without_devices() -> None:
    there = mixed((2, replace(FOUR, millicores=5_000)), (1, node_set("cpu", devices=0)))
    assert tasks(placed(pack, there, ask(4, servers=3))) == {"n0": "wwwws", "n2": "ss"}


def test_workers_are_kept_off_the_only_node_with_cores_for_the_server() -> None:
    there = with_cores(cluster(3, FOUR), 8, 2, 2)
    request = ask(4, servers=1, server=Need(millicores=8_000))
    assert tasks(placed(pack, there, request)) == {"n0": "s", "n1": "ww", "n2": "ww"}


def test_a_job_without_devices_goes_to_a_node_without_devices() -> None:
    there = mixed((2, FOUR), (2, node_set("cpu", devices=0, cores=8)))
    request = ask(3, need=Need(millicores=2_000), kinds=("a", "cpu"))
    assert tasks(placed(pack, there, request)) == {"n2": "www"}


def test_a_job_without_devices_takes_the_fewest_nodes() -> None:
    there = with_cores(mixed((4, node_set("cpu", devices=0, cores=8))), 1, 1, 4, 2)
    request = ask(6, need=Need(millicores=1_000), kinds=("cpu",))
    assert tasks(placed(pack, there, request)) == {"n2": "wwww", "n3": "ww"}


@pytest.mark.parametrize("widest", [Level.SWITCH, Level.NODE, Level.CLUSTER])
def test_tasks_that_need_nothing_at_all_fit_on_any_node_that_is_up(widest: Level) -> None:
    there = with_cores(left_free(cluster(1), 0), 0)
    assert len(placed(pack, there, ask(3, widest, need=Need())).slots) == 3
    down = replace(there, nodes=(replace(there.nodes[0], state=NodeState.DRAINING),))
    assert pack(Board(down), ask(3, widest, need=Need())) is None


def test_a_server_that_needs_nothing_comes_with_a_gang_over_several_nodes() -> None:
    placement = placed(pack, cluster(2, FOUR), ask(8, servers=2, server=Need()))
    assert tasks(placement) == {"n0": "wwwwss", "n1": "wwww"}


def test_a_plan_without_tasks_has_no_place() -> None:
    assert pack(Board(cluster(1)), Request(Plan(()), ("a",))) is None
    lost = cluster(1)
    lost = replace(lost, nodes=(replace(lost.nodes[0], state=NodeState.LOST),))
    assert pack(Board(lost), Request(Plan(()), ("a",))) is None


def test_a_task_stays_on_one_node_however_many_devices_it_needs() -> None:
    there = cluster(3, FOUR)
    assert set(bits(pack, there, ask(2, need=Need(devices=3))).values()) == {0b0111}
    assert pack(Board(there), ask(1, need=Need(devices=5))) is None


def test_the_devices_of_one_task_lie_together() -> None:
    placement = placed(pack, cluster(1), ask(4, need=Need(devices=2)))
    kind = node_set()
    assert {kind.level_of(slot.bits) for slot in placement.slots} == {Level.SWITCH}


@pytest.mark.parametrize(
    ("widest", "workers"),
    [(Level.SWITCH, 2), (Level.SOCKET, 4), (Level.NODE, 8), (Level.RACK, 16), (Level.DOMAIN, 32)],
)
def test_each_level_holds_so_much_and_no_more(widest: Level, workers: int) -> None:
    there = cluster(8, racks=4, domains=2)
    assert len(placed(pack, there, ask(workers, widest)).slots) == workers
    assert pack(Board(there), ask(workers + 1, widest)) is None


def test_two_racks_of_one_name_in_two_domains_are_two_racks() -> None:
    there = cluster(2, racks=2, domains=2)
    there = replace(there, nodes=tuple(replace(node, rack="r0") for node in there.nodes))
    assert pack(Board(there), ask(16, Level.RACK)) is None
    assert pack(Board(there), ask(16, Level.CLUSTER)) is not None


@pytest.mark.parametrize("state", [NodeState.DRAINING, NodeState.LOST])
def test_nodes_that_are_not_up_are_never_used(state: NodeState) -> None:
    there = cluster(2)
    there = replace(there, nodes=(replace(there.nodes[0], state=state), there.nodes[1]))
    assert bits(pack, there, ask(8)) == {"n1": 0xFF}
    assert pack(Board(there), ask(9)) is None
    assert tasks(placed(pack, there, ask(2, need=Need(memory=GB)))) == {"n1": "ww"}


def test_devices_of_other_configuration_sets_are_not_touched_but_their_cores_may_be() -> None:
    there = mixed((1, replace(FOUR, millicores=4_000)), (1, node_set("b", devices=4)))
    assert pack(Board(there), ask(5)) is None
    assert tasks(placed(pack, there, ask(4, servers=2))) == {"n0": "wwww", "n1": "ss"}
