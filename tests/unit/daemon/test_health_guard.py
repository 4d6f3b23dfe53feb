"""Nodes that are not well are drained, and used again when their disk has room."""

from dataclasses import replace

from muster.daemon.health_guard import HealthGuard
from muster.executors.discover import Grid, Machine, virtual_cluster
from muster.model.cluster import Cluster, NodeState
from muster.model.event import NodeDraining, NodeReturned
from muster.wire.api.records import NodeHealth

TWO = virtual_cluster(Grid(2, 1, 2), Machine(4_000, 10**10))
WELL, FULL, BROKEN = NodeHealth(disk_free=10**11), NodeHealth(disk_free=0), NodeHealth(xids=(79,))
WHY = "unhealthy: its disk is full (less than 512 MB free)"


def after(cluster: Cluster, name: str, state: NodeState, why: str = "") -> Cluster:
    return cluster.with_nodes(
        tuple(
            replace(node, state=state, why=why) if node.name == name else node for node in cluster.nodes
        )
    )


def test_only_the_node_that_is_not_well_is_drained_and_once() -> None:
    guard = HealthGuard()
    agents = {"n0": WELL, "n1": FULL, "stranger": FULL}
    assert guard.look(TWO, agents, 5.0) == [NodeDraining("n1", 5.0, None, WHY)]
    assert guard.look(after(TWO, "n1", NodeState.DRAINING, WHY), agents, 6.0) == []


def test_a_node_is_used_again_when_its_disk_has_room() -> None:
    guard = HealthGuard()
    guard.look(TWO, {"n1": FULL}, 5.0)
    drained = after(TWO, "n1", NodeState.DRAINING, WHY)
    assert guard.look(drained, {"n1": WELL}, 6.0) == [NodeReturned("n1", 6.0)]
    assert guard.look(TWO, {"n1": FULL}, 7.0), "and drained again if it fills again"


def test_a_restarted_daemon_returns_what_the_previous_one_drained() -> None:
    drained = after(TWO, "n1", NodeState.DRAINING, WHY)
    assert HealthGuard().look(drained, {"n1": WELL}, 6.0) == [NodeReturned("n1", 6.0)]


def test_a_broken_device_waits_for_an_administrator_who_has_the_last_word() -> None:
    guard = HealthGuard()
    (drain,) = guard.look(TWO, {"n0": BROKEN}, 5.0)
    assert isinstance(drain, NodeDraining)
    drained = after(TWO, "n0", NodeState.DRAINING, drain.why)
    assert guard.look(drained, {"n0": WELL}, 6.0) == []
    assert guard.look(TWO, {"n0": BROKEN}, 7.0) == [], "resumed with the same error"
    worse = NodeHealth(xids=(79,), ecc=1)
    assert guard.look(TWO, {"n0": worse}, 8.0) == []
    assert guard.look(TWO, {"n0": NodeHealth(ecc=1)}, 8.0), "another cause"


def test_a_drain_by_an_administrator_or_an_engine_is_left_alone() -> None:
    guard = HealthGuard()
    drained = after(TWO, "n0", NodeState.DRAINING, "taken back by Slurm")
    assert guard.look(drained, {"n0": WELL, "n1": WELL}, 5.0) == []
    assert guard.look(drained, {"n0": FULL}, 6.0) == []
    assert guard.look(after(TWO, "n0", NodeState.LOST, "silent"), {"n0": FULL}, 7.0) == []
