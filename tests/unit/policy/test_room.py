"""What a policy may deal out: of cluster, pools and types, worked out by hand."""

import pytest

from muster.core.cycle.cycle import Memory, decide
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.outlook import Outlook
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import View
from muster.policy.registry import POLICIES
from muster.policy.room import UNBOUNDED, Room
from muster.sim.worlds.power import PowerSpeed
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.numbers import number

FLAT = PoolTree({"p": Pool("p"), "q": Pool("q")})
TREE = PoolTree(
    {
        "p": Pool("p"),
        "p1": Pool("p1", "p", {"A100": Quota(limit=5)}),
        "p2": Pool("p2", "p"),
        "q": Pool("q"),
    }
)


def room(pools: PoolTree, entitled: dict[str, int], *jobs: Job, capacity: int = 16) -> Room:
    seen = view(cluster(2), jobs, pools)
    return Room(seen, Entitlements({(p, "A100"): n for p, n in entitled.items()}, {"A100": capacity}))


def test_what_everybody_is_entitled_to_binds() -> None:
    made = room(FLAT, {"p": 10, "q": 6})
    assert made.most(job("j", pool="p"), "A100") == 10
    made.take(job("j", pool="p"), "A100", 7)
    assert (made.most(job("k", pool="p"), "A100"), made.most(job("l", pool="q"), "A100")) == (3, 6)
    assert made.free("A100") == 9


def test_what_nobody_is_entitled_to_is_anybodys_once() -> None:
    """Of 16 p is entitled to 6 and q to 4: six are nobody's. p takes 9, three of them; q may have its
    four and the three that are left."""
    made = room(FLAT, {"p": 6, "q": 4})
    assert made.most(job("j", pool="p"), "A100") == 12
    made.take(job("j", pool="p"), "A100", 9)
    assert (made.most(job("k", pool="p"), "A100"), made.most(job("l", pool="q"), "A100")) == (3, 7)
    made.take(job("j", pool="p"), "A100", -9)
    assert made.most(job("l", pool="q"), "A100") == 10


def test_pools_around_it_bind_too_and_limits_always() -> None:
    """p has 10, of which p1 2 and p2 4: four are there for either. So p1 could have 6, but for its
    limit of 5, and p2 8; when p2 has taken them, p1 has its own two. q has the other six."""
    made = room(TREE, {"p": 10, "p1": 2, "p2": 4, "q": 6})
    assert made.most(job("j", pool="p1"), "A100") == 5
    assert made.most(job("k", pool="p2"), "A100") == 8
    made.take(job("k", pool="p2"), "A100", 8)
    assert made.most(job("j", pool="p1"), "A100") == 2
    assert made.most(job("l", pool="q"), "A100") == 6


def test_what_is_not_preemptible_is_bound_by_its_reservation_alone() -> None:
    pools = PoolTree({"p": Pool("p", quotas={"A100": Quota(3)}), "q": Pool("q")})
    made = room(pools, {"p": 0, "q": 16})
    assert made.most(job("j", pool="p", preemptible=False), "A100") == 3
    assert made.most(job("j", pool="p"), "A100") == 0


def test_preemptible_jobs_leave_the_reservation_to_others_of_their_pool() -> None:
    pools = PoolTree({"p": Pool("p", quotas={"A100": Quota(reservation=4)}), "q": Pool("q")})
    fixed = job("f", pool="p", preemptible=False)
    made = room(pools, {"p": 8, "q": 8}, job("j", pool="p"))
    made.take(job("j", pool="p"), "A100", 4)
    assert made.most(fixed, "A100") == 4, "the four of j can be taken back"
    made.take(fixed, "A100", 3)
    assert made.most(fixed, "A100") == 1
    made = room(pools, {"p": 4, "q": 8}, job("j", pool="p"))
    made.take(job("j", pool="p"), "A100", 4)
    assert made.most(fixed, "A100") == 0, "it does not borrow"


def test_workers_of_several_devices_are_counted_whole() -> None:
    assert room(FLAT, {"p": 7, "q": 9}).most(job("j", need=Need(2), pool="p"), "A100") == 3


def test_a_job_without_devices_is_not_bound() -> None:
    assert room(FLAT, {}).most(job("j", need=Need(0, 1000), pool="p"), "A100") == UNBOUNDED


def test_servers_that_take_devices_are_counted() -> None:
    """One server of two devices for up to two workers, two servers beyond: 3, 4, 7, 8 devices in all
    for 1, 2, 3, 4 workers."""
    workers = RoleSpec(Role.WORKER, Need(1), 1, 1, 4)
    asked = Job("j", pool="p", roles=(workers, RoleSpec(Role.SERVER, Need(2), 1, 1, 2)))
    made = room(FLAT, {"p": 7, "q": 9})
    assert made.most(asked, "A100") == 3
    made.take(asked, "A100", 1)
    assert (made.free("A100"), made.most(asked, "A100")) == (16 - 3, 2)
    made.take(asked, "A100", 2)
    assert (made.free("A100"), made.most(asked, "A100")) == (16 - 7, 0)
    made.take(asked, "A100", -3)
    assert made.free("A100") == 16


def test_what_cannot_be_changed_has_its_part_already() -> None:
    fixed = running(job("f", 2, pool="p", preemptible=False), placement(("n0", 1), ("n0", 2)))
    moves = running(job("m", 2, pool="p"), placement(("n1", 1), ("n1", 2)))
    seen = view(cluster(2), [fixed, moves, job("w", pool="q")], FLAT)
    made = Room(seen, Entitlements({("p", "A100"): 8, ("q", "A100"): 8}, {"A100": 16}))
    assert [state.job.name for state in made.movable] == ["m", "w"]
    assert (made.free("A100"), made.most(job("j", pool="p"), "A100")) == (14, 6)


def two_types() -> View:
    """A100 and V100 both free; a job in one of two pools may use either, V100 five times as fast."""
    on = mixed((1, node_set("a", devices=4)), (1, node_set("b", device_type="V100", devices=4)))
    seen = view(on, [job("j", 2, pool="p")], FLAT)
    speed = PowerSpeed(2, 1.0, {"V100": 5.0})
    return View(0, seen.cluster, seen.pools, seen.jobs, {number("j"): Outlook(100.0, speed)})


@pytest.mark.parametrize("name", ["afs", "optimus", "finish-time"])
def test_a_job_goes_to_the_faster_type_though_its_pool_asked_for_the_other(name: str) -> None:
    decided = decide(POLICIES[name], two_types(), 10.0, Memory())
    (start,) = decided.decisions
    assert start.placement is not None
    assert start.placement.nodes() == {"n1"}
