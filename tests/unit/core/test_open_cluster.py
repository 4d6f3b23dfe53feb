"""A cluster whose nodes come and go: what is refused, what waits and why, and what starts."""

from dataclasses import replace

import pytest

from muster.core.state.admit import refuse
from muster.core.why.words import tell
from muster.model.cluster import Cluster
from muster.model.event import NodeAdded, NodeLeft, NodeLost
from muster.model.job import Job, Locality, Need
from muster.model.pool import EVERY_TYPE, Pool, PoolTree, Quota, whole_pool
from muster.model.reason import Code, Lack, RequestChange
from muster.model.topology import ConfigurationSet, Level
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES
from tests.builders import LINKS, cluster, job, node_set
from tests.world import World

NODE = Locality(Level.NODE)
FOUR = node_set("four", device_type="H100", devices=4)


def empty(pools: PoolTree | None = None) -> World:
    return World(View(0, Cluster("test", {}, (), LINKS, open=True), pools or whole_pool(), {}))


def one_pool(quota: Quota) -> PoolTree:
    return PoolTree({"a": Pool("a", quotas={EVERY_TYPE: quota})})


def joins(world: World, *names: str, kind: ConfigurationSet = FOUR) -> None:
    for name in names:
        node = cluster(1, kind).nodes[0]
        world.happen(NodeAdded(type(node)(name, kind.name, "r0", "d0", 0, 0, 0), world.now, kind))


def refused(asked: Job, pools: PoolTree | None = None) -> str:
    refusal = refuse(asked, empty().view.cluster, pools or whole_pool())
    return "" if refusal is None else refusal.why


# Admission


def test_what_may_fit_once_nodes_have_joined_is_admitted() -> None:
    assert refused(job("j", 1000, device_types=("H100",))) == ""
    assert refused(job("j", 4, preemptible=False)) == ""
    assert refused(job("j", need=Need(millicores=1_000))) == ""


@pytest.mark.parametrize(
    ("asked", "quota", "why"),
    [
        (job("j", need=Need(17)), Quota(), "a task takes 17 devices of one node"),
        (job("j", 17, locality=NODE), Quota(), "its gang takes 17 devices of one node"),
        (job("j", 5), Quota(limit=4), "5 devices, the limit of pool 'a' is 4"),
        (job("j", 5, device_types=("H100",)), Quota(limit=4), "5 H100, the limit of pool 'a' is 4"),
        (job("j", 5, preemptible=False), Quota(reservation=4), "5 devices, pool 'a' reserves 4"),
    ],
)
def test_what_no_node_could_change_is_refused(asked: Job, quota: Quota, why: str) -> None:
    assert why in refused(replace(asked, pool="a"), one_pool(quota))


def test_the_nearest_request_respects_the_fixed_limit() -> None:
    refusal = refuse(job("j", 5, pool="a"), empty().view.cluster, one_pool(Quota(limit=4)))
    assert refusal is not None
    assert refusal.nearest == RequestChange("devices", "4")


def test_a_limit_that_is_a_part_refuses_nothing() -> None:
    assert (
        refused(
            job("j", 50, pool="a"),
            PoolTree({"a": Pool("a", quotas={EVERY_TYPE: Quota(limit_part=0.1)})}),
        )
        == ""
    )


# Reasons


def test_a_job_on_an_empty_cluster_waits_for_nodes_to_join() -> None:
    world = empty()
    world.submit(job("j", 4, device_types=("H100",)), job("cpu", need=Need(millicores=1_000)))
    frame = world.cycle()
    assert frame.reason("j").code is Code.WAITING_JOIN
    assert frame.reason("j").lack == Lack(4, ("H100",), 0, 0, Level.CLUSTER)
    assert "needs 4 H100, none has joined" in tell(frame.reason("j"))
    assert frame.reason("cpu").code is Code.WAITING_JOIN
    assert "no node with enough cores and memory has joined" in tell(frame.reason("cpu"))


def test_a_gang_larger_than_what_joined_is_told_so_with_what_would_start_now() -> None:
    world = empty()
    joins(world, "n0", "n1")
    world.submit(job("j", 9), job("k", 5, locality=NODE, preemptible=False))
    frame = world.cycle()
    assert "needs 9 devices, 8 joined, at most 4 on one node" in tell(frame.reason("j"))
    assert frame.reason("j").would_start == RequestChange("devices", "8")
    assert "needs 5 devices within one node, 8 joined" in tell(frame.reason("k"))


def test_nodes_that_are_lost_are_waited_for_and_nodes_that_left_are_not() -> None:
    world = empty()
    joins(world, "n0")
    world.happen(NodeLost("n0", 1.0))
    world.submit(job("j", 4))
    assert world.cycle().reason("j").code is Code.WAITING_NODES
    world.happen(NodeLeft("n0", 2.0))
    assert world.cycle().reason("j").code is Code.WAITING_JOIN


# Starts


@pytest.mark.parametrize("name", POLICIES)
def test_under_every_policy_jobs_start_when_nodes_join(name: str) -> None:
    world = empty()
    world.policy = POLICIES[name]
    world.submit(job("big", 8), *(job(f"small{n}", 1, most=2) for n in range(3)))
    assert all(state.phase is Phase.WAITING for state in world.cycle().after.jobs.values())
    joins(world, "n0")
    _until_ended(world, "small0", "small1", "small2")
    assert world.phase("big") is Phase.WAITING
    world.happen(NodeLost("n0", world.now), NodeLeft("n0", world.now))
    world.cycle(60.0)
    joins(world, "n1", "n2")
    _until_ended(world, "big")
    assert not world.view.jobs


def _until_ended(world: World, *names: str) -> None:
    """Let these jobs run to their end; each ends a cycle after it started."""
    left = set(names)
    for _ in range(40):
        world.settle(60.0)
        world.complete()
        done = {name for name in left if world.phase(name) is Phase.RUNNING}
        world.end(*done)
        left -= done
        if not left:
            return
    raise AssertionError(f"{sorted(left)} did not start under {world.policy.name}")
