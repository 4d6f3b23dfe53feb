"""Requests that can never run are refused at once, with the nearest that could."""

import pytest

from muster.core.state.admit import Refusal, refuse
from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.pool import Pool, PoolTree, Quota, single_pool
from muster.model.reason import RequestChange
from muster.model.topology import Level
from tests.builders import GB, cluster, job, mixed, node_set, taken, view
from tests.changes import changed
from tests.world import flat, on

LAB = cluster(2, racks=2)
NODE = Locality(Level.NODE)


def refused(asked: Job, there: Cluster = LAB, pools: PoolTree | None = None) -> Refusal:
    whole = there.devices_by_type()
    tree = pools or single_pool(whole)
    refusal = refuse(asked, there, tree)
    assert refusal is not None
    if refusal.nearest is not None:
        assert refuse(changed(asked, refusal.nearest), there, tree) is None
    return refusal


def allowed(asked: Job, there: Cluster = LAB, pools: PoolTree | None = None) -> bool:
    whole = there.devices_by_type()
    return refuse(asked, there, pools or single_pool(whole)) is None


def test_what_fits_on_the_empty_cluster_is_not_refused() -> None:
    assert allowed(job("j", 16))
    assert allowed(job("j", 8, locality=NODE))


def test_nor_is_it_when_the_cluster_is_full_or_its_nodes_are_lost() -> None:
    full = view(LAB, [on(job(f"j{n}", 8), f"n{n}", 0xFF) for n in range(2)]).cluster
    assert allowed(job("j", 16), full)
    lost = view(LAB).cluster
    nodes = tuple(
        type(node)(node.name, node.configuration, node.rack, node.domain, 0, 0, 0, NodeState.LOST)
        for node in lost.nodes
    )
    assert allowed(job("j", 16), Cluster("test", lost.configurations, nodes, lost.links))


def test_more_devices_than_there_are() -> None:
    refusal = refused(job("j", 17))
    assert refusal.why == "its gang takes 17 devices, the cluster has 16 of its types"
    assert refusal.nearest == RequestChange("devices", "16")


def test_more_than_one_node_has_within_one_node() -> None:
    refusal = refused(job("j", 12, locality=NODE))
    assert "its gang of 12 workers (12 devices) does not fit within one node" in refusal.why
    assert refusal.nearest == RequestChange("locality", "domain")


def test_one_worker_is_called_one_worker() -> None:
    refusal = refused(job("j", 1, need=Need(1, 1_000_000, GB)))
    assert "its gang of 1 worker (1 device) does not fit" in refusal.why


def test_only_the_gang_counts_not_what_it_could_grow_to() -> None:
    assert allowed(job("j", 20, gang=4, most=40))


def test_a_worker_that_needs_more_devices_than_any_node_has() -> None:
    refusal = refused(job("j", 2, need=Need(12, 1_000, GB)))
    assert refusal.nearest == RequestChange("devices per worker", "8")


def test_too_many_workers_of_several_devices_are_called_workers() -> None:
    refusal = refused(job("j", 9, need=Need(2, 1_000, GB)))
    assert refusal.nearest == RequestChange("workers", "8")


def test_more_cores_than_there_are_beside_the_devices() -> None:
    refusal = refused(job("j", 8, need=Need(1, 16_000, GB)))
    assert refusal.nearest == RequestChange("cores", "8")


def test_more_memory_than_there_is_beside_the_devices() -> None:
    refusal = refused(job("j", 16, need=Need(1, 1_000, 40 * GB)))
    assert refusal.nearest == RequestChange("memory", "32GB")


def test_servers_that_ask_too_much() -> None:
    spec = RoleSpec(Role.SERVER, Need(0, 64_000, GB), 1, 1, 1)
    asked = job("j", 2)
    refusal = refused(Job("j", roles=(*asked.roles, spec)))
    assert refusal.nearest is not None and refusal.nearest.field == "server cores"


def test_a_job_without_devices_that_asks_too_much() -> None:
    refusal = refused(job("j", need=Need(0, 64_000, GB)))
    assert refusal.nearest == RequestChange("cores", "32")


def test_a_slowdown_that_no_placement_keeps_is_not_a_reason_to_refuse() -> None:
    """It is against the best placement, and the best keeps it."""
    assert allowed(job("j", 16, locality=Locality(max_slowdown=0.0)))


def test_a_type_that_is_not_there() -> None:
    refusal = refused(job("j", 2, device_types=("H100",)))
    assert refusal.why == "no devices of type 'H100'; types: A100"
    assert refusal.nearest == RequestChange("any_of", "A100")


def test_one_type_of_several_is_enough() -> None:
    assert allowed(job("j", 2, device_types=("H100", "A100")))


def test_two_generations_may_be_what_it_takes() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    assert refused(job("j", 12), there).nearest == RequestChange("devices", "8")
    assert allowed(job("j", 12, same_generation=False), there)


def test_a_pool_that_is_not_there() -> None:
    pools = flat(vision=Quota(), speech=Quota())
    refusal = refused(job("j", pool="vison"), pools=pools)
    assert refusal.why == "no such pool: 'vison'; pools: vision, speech"
    assert refusal.nearest == RequestChange("pool", "vision")


def test_a_pool_that_has_pools_below_it() -> None:
    pools = PoolTree({"lab": Pool("lab"), "a": Pool("a", "lab"), "b": Pool("b", "lab")})
    refusal = refused(job("j", pool="lab"), pools=pools)
    assert refusal.why == "pool 'lab' takes no jobs; its pools do: a, b"
    assert refusal.nearest == RequestChange("pool", "a")
    assert refused(job("j", pool="cluster"), pools=pools).nearest == RequestChange("pool", "a")


def test_above_the_limit_of_its_pool_or_of_one_around_it() -> None:
    pools = PoolTree({"lab": Pool("lab", quotas={"A100": Quota(limit=4)}), "a": Pool("a", "lab")})
    refusal = refused(job("j", 5, pool="a"), pools=pools)
    assert refusal.why == "its gang takes 5 A100, the limit of pool 'lab' is 4"
    assert refusal.nearest == RequestChange("devices", "4")


def test_not_preemptible_and_beyond_the_reservation() -> None:
    pools = flat(a=Quota(reservation=4))
    refusal = refused(job("j", 5, pool="a", preemptible=False), pools=pools)
    assert refusal.why == "it is not preemptible and its gang takes 5 A100, pool 'a' reserves 4"
    assert refusal.nearest == RequestChange("preemptible", "true")


def test_a_limit_on_one_type_leaves_the_others() -> None:
    there = mixed((1, node_set()), (1, node_set("b", device_type="A30")))
    pools = PoolTree({"a": Pool("a", quotas={"A30": Quota(limit=0)})})
    assert allowed(job("j", 8, pool="a"), there, pools)
    pools = PoolTree({"a": Pool("a", quotas={"A30": Quota(limit=0), "A100": Quota(limit=4)})})
    assert refused(job("j", 8, pool="a"), there, pools).nearest == RequestChange("devices", "4")


def test_a_reservation_of_any_type_allowed_will_do() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    pools = PoolTree({"a": Pool("a", quotas={"V100": Quota(reservation=4)})})
    assert allowed(job("j", 4, pool="a", preemptible=False), there, pools)


def test_where_no_one_change_would_do_none_is_named() -> None:
    assert refused(job("j", 64, need=Need(16, 1_000, GB))).nearest is None


def test_a_cluster_without_devices_refuses_devices() -> None:
    there = cluster(1, node_set(devices=0))
    refusal = refuse(job("j"), there, single_pool())
    assert refusal == Refusal("the cluster has no devices", None)
    assert refuse(job("j", need=Need(0, 1_000, 0)), there, single_pool()) is None


@pytest.mark.parametrize("devices", [1, 4, 8])
def test_the_answer_does_not_depend_on_what_is_free(devices: int) -> None:
    slots = on(job("x", devices), "n0", (1 << devices) - 1).held()
    assert refused(job("j", 17), taken(LAB, slots)) == refused(job("j", 17))
