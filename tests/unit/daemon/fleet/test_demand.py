"""Which nodes jobs could use beyond those there are, and which nobody needs."""

from dataclasses import replace

from muster.daemon.fleet.demand import node_demand
from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job, Locality, Need
from muster.model.pool import EVERY_TYPE, Pool, PoolTree, Quota, whole_pool
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.ports import NodeDemand
from tests.builders import LINKS, cluster, job, mixed, node_set, view
from tests.world import on

NODE, RACK = Locality(Level.NODE), Locality(Level.RACK)
NOTHING = Cluster("test", {}, (), LINKS, open=True)


def wanted(there: Cluster, *jobs: Job | JobState, pools: PoolTree | None = None) -> NodeDemand:
    return node_demand(view(there, jobs, pools or whole_pool()))


def test_nothing_is_wanted_when_nothing_waits() -> None:
    there = cluster(3)
    found = wanted(there, on(job("j", 8), "n1", 0xFF))
    assert (found.devices, found.largest) == ({}, 0)
    assert found.idle == ("n0", "n2")
    assert found.nodes == ("n0", "n1", "n2")


def test_an_empty_cluster_wants_what_its_jobs_ask_for() -> None:
    found = wanted(NOTHING, job("a", 4, device_types=("H100",)), job("b", 2), job("c", 8))
    assert found == NodeDemand({"H100": 4, "": 10}, 1)


def test_a_gang_of_one_node_says_how_large() -> None:
    found = wanted(NOTHING, job("a", 8, locality=NODE), job("b", 2, need=Need(4)))
    assert (found.devices, found.largest) == ({"": 16}, 8)


def test_a_job_that_fits_wants_nothing_and_its_node_is_not_idle() -> None:
    found = wanted(cluster(2), job("a", 4))
    assert found.devices == {}
    assert len(found.idle) == 1


def test_free_devices_count_for_a_gang_that_may_span_nodes() -> None:
    found = wanted(cluster(2), on(job("r", 6), "n0", 0x3F), job("a", 20))
    assert (found.devices, found.idle) == ({"": 10}, ())


def test_they_do_not_count_for_a_gang_that_may_not() -> None:
    there = cluster(2, racks=2)
    busy = (on(job("r", 1), "n0", 1), on(job("s", 1), "n1", 1))
    assert wanted(there, *busy, job("a", 8, locality=NODE)).devices == {"": 8}
    assert wanted(there, *busy, job("a", 10, locality=RACK)).devices == {"": 3}


def test_devices_of_another_type_do_not_count() -> None:
    there = mixed((1, node_set()), (1, node_set("b", device_type="V100")))
    found = wanted(there, job("a", 12, device_types=("A100",)))
    assert (found.devices, found.idle) == ({"A100": 4}, ("n1",))


def test_an_elastic_job_wants_all_it_could_use() -> None:
    grows = on(job("r", 4, gang=1, most=32), "n0", 0xF)
    assert wanted(cluster(2), grows).devices == {"": 32 - 16}
    assert wanted(cluster(2), grows).idle == ()
    assert wanted(NOTHING, job("a", 1, most=6)).devices == {"": 6}


def test_one_on_a_single_node_does_not() -> None:
    assert wanted(cluster(1), on(job("r", 4, most=32, locality=NODE), "n0", 0xF)).devices == {}


def test_a_fixed_quota_no_node_can_lift() -> None:
    for quota in (Quota(limit=4), Quota(limit=4, reservation_part=1.0)):
        pools = PoolTree({"default": Pool("default", quotas={EVERY_TYPE: quota})})
        found = wanted(NOTHING, job("a", 3), job("b", 3), job("c", 1), pools=pools)
        assert found.devices == {"": 4}
    per_user = PoolTree({"default": Pool("default", devices_per_user=2)})
    two = (job("a", 2, user="ann"), job("b", 2, user="ann"), job("c", 2, user="bob"))
    assert wanted(NOTHING, *two, pools=per_user).devices == {"": 4}
    firm = job("a", 4, preemptible=False)
    reserved = PoolTree({"default": Pool("default", quotas={EVERY_TYPE: Quota(reservation=2)})})
    assert wanted(NOTHING, firm, pools=reserved).devices == {}
    assert wanted(NOTHING, firm).devices == {"": 4}


def test_a_held_job_wants_nothing() -> None:
    held = JobState(job("a", 4), Phase.WAITING, 0.0, held_by="ann")
    assert wanted(NOTHING, held).devices == {}


def test_jobs_without_devices_want_one_node_at_a_time() -> None:
    small = [job(f"j{n}", need=Need(millicores=1_000)) for n in range(5)]
    assert wanted(NOTHING, *small).devices == {"": 1}
    assert wanted(cluster(1), *small).devices == {}


def test_nodes_that_drain_or_are_lost_are_not_free_and_an_empty_one_that_drains_is_idle() -> None:
    states = (NodeState.UP, NodeState.DRAINING, NodeState.LOST)
    nodes = tuple(replace(n, state=s) for n, s in zip(cluster(3).nodes, states, strict=True))
    there = replace(cluster(3), nodes=nodes)
    assert wanted(there).idle == ("n0", "n1")
    assert wanted(there, job("a", 16)).devices == {"": 8}


def test_higher_priority_gets_the_free_devices() -> None:
    low, high = job("a", 8, device_types=("A100",)), job("b", 8, priority=1)
    state = View(0, cluster(1), whole_pool(), {})
    found = node_demand(replace(state, jobs=view(cluster(1), [low, high]).jobs))
    assert found.devices == {"A100": 8}
