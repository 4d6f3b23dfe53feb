"""Placements around links that were learnt to be slow."""

from collections.abc import Mapping
from dataclasses import replace

from muster.model.cluster import Cluster
from muster.model.placement import Placement
from muster.model.topology import Link
from muster.place.board import Board
from muster.place.grow import grow
from muster.place.pack import pack
from muster.place.request import Request
from muster.place.uplinks import around_slow, uplinks_of, without_slow
from tests.builders import cluster, mixed, node_set
from tests.unit.place.asks import ask, left_free

SLOW = 0.1 * node_set().nic.bandwidth


def nodes(there: Cluster, request: Request, uplinks: Mapping[str, float]) -> set[str]:
    found = around_slow(pack, uplinks_of(there, uplinks))(Board(there), request)
    assert found is not None
    return set(found.nodes())


def test_a_job_over_nodes_goes_around_a_slow_link() -> None:
    assert nodes(cluster(4), ask(16), {}) == {"n0", "n1"}
    assert nodes(cluster(4), ask(16), {"n0": SLOW}) == {"n1", "n2"}
    assert nodes(cluster(4), ask(24), {"n1": SLOW, "n2": SLOW / 2}) == {"n0", "n1", "n3"}


def test_a_link_that_the_cluster_file_says_is_slow_is_one() -> None:
    slow = node_set("b")
    slow = replace(slow, nic=Link(SLOW, slow.nic.latency))
    there = mixed((1, slow), (3, node_set()))
    assert nodes(there, ask(16, kinds=("b", "a")), {}) == {"n1", "n2"}
    fast = node_set().nic.bandwidth
    assert nodes(there, ask(16, kinds=("b", "a")), {"n0": fast, "n1": SLOW}) == {"n0", "n2"}


def test_a_job_on_one_node_does_not_care() -> None:
    assert nodes(cluster(4), ask(8), {"n0": SLOW}) == {"n0"}


def test_where_only_slow_links_are_left_they_are_used() -> None:
    assert nodes(cluster(2), ask(16), {"n0": SLOW}) == {"n0", "n1"}


def test_another_rack_is_worth_it_if_its_uplink_is_faster_than_the_slow_one() -> None:
    there = left_free(cluster(6, racks=2), 0xFF, 0xFF, 0, 0xFF, 0, 0)
    assert nodes(there, ask(16), {"n0": SLOW / 1000}) == {"n1", "n3"}
    assert nodes(there, ask(16), {}) == {"n0", "n1"}


def test_nothing_is_lost_by_looking() -> None:
    board = Board(cluster(4))
    around_slow(pack, uplinks_of(board.cluster, {"n0": SLOW}))(board, ask(16))
    assert board.free == Board(cluster(4)).free
    assert board.free_devices(("a",)) == 32


def test_a_job_does_not_grow_onto_a_slow_link_unless_it_is_on_one() -> None:
    there = cluster(3)
    board = Board(there)
    held = pack(board, ask(8))
    assert held is not None
    assert set(held.nodes()) == {"n0"}
    board.take(held.slots)
    assert _grown(board, held, {"n1": SLOW}) == {"n2"}
    assert _grown(board, held, {"n0": SLOW, "n1": SLOW}) == {"n1", "n2"}


def _grown(board: Board, held: Placement, uplinks: Mapping[str, float]) -> set[str]:
    with without_slow(board, uplinks_of(board.cluster, uplinks), held):
        return {slot.node for slot in grow(board, ask(16), held)}
