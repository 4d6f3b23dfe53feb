"""Nodes that join, change, leave, are lost and return."""

from dataclasses import replace

import pytest

from muster.core.state.event_errors import EventError, UnknownNameError
from muster.core.state.evolve import evolve
from muster.model.cluster import Cluster, NodeState
from muster.model.event import (
    Cancelled,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    Submitted,
)
from muster.model.offer import NodeOffer
from muster.model.pool import whole_pool
from muster.model.view import Phase, View
from tests.builders import LINKS, cluster, job, node_set, placement, running, view
from tests.numbers import number

FOUR = node_set("four", devices=4)
HERE = placement(("n0", 0b1))


def busy() -> View:
    """Two nodes of eight devices; job j on the first of n0."""
    return view(cluster(2), [running(job("j"), HERE)])


def test_the_first_node_of_an_empty_cluster_brings_its_configuration_set() -> None:
    nothing = View(0, Cluster("test", {}, (), LINKS, open=True), whole_pool(), {})
    joined = cluster(1, FOUR).node("n0")
    after = evolve(nothing, [NodeAdded(joined, 1.0, FOUR)])
    assert after.cluster.nodes == (joined,)
    assert after.cluster.devices_by_type() == {"A100": 4}
    assert after.cluster.open
    assert after.pools.pools["default"].quota("A100").reservation == 4


def test_a_node_without_tasks_may_come_back_with_other_devices() -> None:
    smaller = replace(cluster(1, FOUR).node("n0"), rack="r9")
    after = evolve(view(cluster(2)), [NodeAdded(smaller, 1.0, FOUR)])
    assert after.cluster.nodes[0] == smaller
    assert [node.name for node in after.cluster.nodes] == ["n0", "n1"]


def test_a_lost_node_that_is_described_anew_is_back_with_everything_free() -> None:
    lost = evolve(busy(), [NodeLost("n0", 1.0, "silent")])
    assert lost.cluster.node("n0").why == "silent"
    smaller = cluster(1, FOUR).node("n0")
    assert evolve(lost, [NodeAdded(smaller, 2.0, FOUR)]).cluster.node("n0") == smaller


def test_a_node_with_tasks_may_move_but_keeps_its_devices() -> None:
    before = busy()
    offer = NodeOffer("n0", 1, 1, address="10.0.0.7")
    moved = replace(cluster(1).node("n0"), rack="r7", offer=offer)
    node = evolve(before, [NodeAdded(moved, 1.0)]).cluster.node("n0")
    assert node == replace(before.cluster.node("n0"), rack="r7", offer=offer)
    assert node.free == 0b11111110


def test_a_node_with_tasks_cannot_have_other_devices() -> None:
    other = cluster(1, FOUR).node("n0")
    with pytest.raises(EventError, match="'n0' has tasks of job"):
        evolve(busy(), [NodeAdded(other, 1.0, FOUR)])


def test_a_draining_node_stays_so_when_its_agent_calls_again() -> None:
    draining = evolve(busy(), [NodeDraining("n1", 1.0, 60.0, "maintenance")])
    again = replace(cluster(2).node("n1"), rack="r7")
    node = evolve(draining, [NodeAdded(again, 2.0)]).cluster.node("n1")
    assert (node.state, node.until, node.why) == (NodeState.DRAINING, 60.0, "maintenance")
    assert node.rack == "r7"


def test_a_configuration_set_may_be_described_better_but_others_keep_what_they_have() -> None:
    known = cluster(1).configurations["a"]
    joined = replace(cluster(3).node("n2"), name="n7")
    faster = replace(known, device_rate=1e12)
    after = evolve(busy(), [NodeAdded(joined, 1.0, faster)])
    assert after.cluster.configurations["a"] == faster
    fewer = replace(known, devices=4)
    with pytest.raises(EventError, match=r"'a' is 8 A100.*on n0, n1, not 4 A100"):
        evolve(busy(), [NodeAdded(joined, 1.0, fewer)])


def test_a_node_that_left_is_gone_and_the_others_keep_their_tasks() -> None:
    spread = placement(("n2", 0b1))
    before = view(cluster(3), [running(job("j"), spread)])
    after = evolve(before, [NodeLeft("n1", 1.0, "given back")])
    assert [node.name for node in after.cluster.nodes] == ["n0", "n2"]
    ended = evolve(after, [Cancelled(number("j"), 2.0)])
    assert ended.cluster.node("n2").free == 0b11111111
    with pytest.raises(UnknownNameError, match="n1"):
        evolve(after, [NodeReturned("n1", 3.0)])


def test_a_node_leaves_without_its_tasks_or_is_lost_with_them() -> None:
    with pytest.raises(EventError, match="tasks of job"):
        evolve(busy(), [NodeLeft("n0", 1.0)])
    after = evolve(busy(), [NodeLost("n0", 1.0), NodeLeft("n0", 2.0)])
    assert [node.name for node in after.cluster.nodes] == ["n1"]
    assert after.jobs[number("j")].phase is Phase.WAITING


def test_a_node_may_leave_and_join_again_in_one_batch() -> None:
    there = cluster(2).node("n0")
    after = evolve(view(cluster(2)), [NodeLeft("n0", 1.0), NodeAdded(there, 1.0)])
    assert [node.name for node in after.cluster.nodes] == ["n1", "n0"]


def test_the_last_node_may_leave() -> None:
    after = evolve(view(cluster(1)), [NodeLeft("n0", 1.0), Submitted(job("j"), 2.0)])
    assert after.cluster.nodes == ()
    assert after.jobs[number("j")].phase is Phase.WAITING


# --- deadlines ---


def test_an_administrator_cannot_put_off_the_deadline_of_an_engine() -> None:
    taken = NodeDraining("n0", 1.0, 100.0, "preempted", taken=True)
    for until in (None, 200.0):
        node = evolve(busy(), [taken, NodeDraining("n0", 2.0, until, "drained by ann")]).cluster.node(
            "n0"
        )
        assert (node.until, node.taken, node.why) == (100.0, 100.0, "preempted")


def test_the_earlier_deadline_of_administrator_and_engine_counts_whoever_comes_first() -> None:
    taken = NodeDraining("n0", 1.0, 100.0, "preempted", taken=True)
    for until, why in ((50.0, "drained by ann"), (200.0, "preempted")):
        asked = NodeDraining("n0", 1.0, until, "drained by ann")
        for story in ([asked, taken], [taken, asked]):
            node = evolve(busy(), story).cluster.node("n0")
            assert (node.until, node.why) == (min(until, 100.0), why)


def test_a_deadline_can_be_moved_by_who_set_it() -> None:
    for who in (True, False):
        moved = [NodeDraining("n0", at, 100.0 * at, "mine", taken=who) for at in (1.0, 2.0)]
        assert evolve(busy(), moved).cluster.node("n0").until == 200.0


def test_a_node_that_its_engine_leaves_to_us_after_all_has_no_deadline() -> None:
    taken = NodeDraining("n0", 1.0, 100.0, "preempted", taken=True)
    back = evolve(busy(), [taken, NodeReturned("n0", 2.0)])
    assert back.cluster == busy().cluster
