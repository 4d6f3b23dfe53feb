"""Growth: who gets what is left, and who does not."""

from dataclasses import replace

from muster.model.decision import Kind
from muster.model.job import Job, Locality, Need, Role, RoleSpec
from muster.model.placement import Placement
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.reason import Code
from muster.model.topology import Level
from tests.builders import cluster, job, mixed, node_set, placement, running, view
from tests.world import Frame, World, flat, on

NODE = Locality(Level.NODE)


def placed(frame: Frame, name: str) -> Placement:
    found = frame.decision(name).placement
    assert found is not None
    return found


def test_a_job_starts_with_its_gang_and_what_else_is_idle() -> None:
    frame = World(view(cluster(1), [job("j", 4, gang=2, most=6)])).cycle()
    assert frame.decision("j").kind is Kind.START
    assert placed(frame, "j").devices == 6


def test_the_rest_of_a_partial_gang_starts_when_there_is_room() -> None:
    world = World(view(cluster(1), [on(job("holds", 6), "n0", 0x3F), job("j", 4, gang=2, most=4)]))
    assert placed(world.cycle(), "j").devices == 2
    world.end("holds")
    frame = world.settle()
    assert frame.reason("j").code is Code.GROWN
    assert placed(frame, "j").devices == 4


def test_nobody_grows_while_another_waits_for_devices_of_that_type() -> None:
    jobs = [on(job("grows", 2, most=8), "n0", 0x03), on(job("holds", 2), "n0", 0x0C)]
    world = World(view(cluster(1), [*jobs, job("waits", 5)]))
    frame = world.cycle()
    assert frame.reason("grows").code is Code.CONTINUES
    world.end("holds")
    frame = world.cycle(1.0)
    assert frame.names(Kind.START) == {"waits"}
    assert placed(frame, "grows").devices == 3  # nobody waits any more, and one is left


def test_a_job_grows_beside_one_that_no_free_device_would_help() -> None:
    pools = flat(a=Quota(), b=Quota(limit=2))
    grows = on(job("grows", 2, most=4, pool="a"), "n0", 0x03)
    frame = World(view(cluster(1), [grows, job("waits", 3, pool="b")], pools)).cycle()
    assert frame.reason("waits").code is Code.WAITING_LIMIT
    assert placed(frame, "grows").devices == 4


def test_a_job_grows_beside_one_that_waits_for_another_type() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    jobs = [on(job("grows", 2, most=4), "n0", 0x03), on(job("holds", 8), "n1", 0xFF)]
    frame = World(view(there, [*jobs, job("waits", 2, device_types=("V100",))])).cycle()
    assert placed(frame, "grows").devices == 4


def test_growth_stops_at_the_limit_of_the_pool_and_of_those_around_it() -> None:
    pools = PoolTree(
        {
            "lab": Pool("lab", quotas={"A100": Quota(limit=5)}),
            "a": Pool("a", "lab"),
            "b": Pool("b", "lab"),
        }
    )
    jobs = [on(job("a0", 1, most=8, pool="a"), "n0", 0x01), on(job("b0", 2, pool="b"), "n0", 0x06)]
    frame = World(view(cluster(1), jobs, pools)).cycle()
    assert placed(frame, "a0").devices == 3


def test_one_that_is_not_preemptible_grows_within_the_reservation() -> None:
    jobs = [on(job("j", 1, most=8, preemptible=False), "n0", 0x01)]
    frame = World(view(cluster(1), jobs, flat(default=Quota(reservation=3)))).cycle()
    assert placed(frame, "j").devices == 3


def test_growth_is_dealt_in_the_order_of_the_queue() -> None:
    jobs = [
        on(job("old", 1, most=6), "n0", 0x01),
        on(job("young", 1, most=6), "n0", 0x02, submitted=1.0),
    ]
    frame = World(view(cluster(1), jobs)).cycle()
    assert placed(frame, "old").devices == 6
    assert placed(frame, "young").devices == 2


def test_growth_keeps_the_contract() -> None:
    jobs = [on(job("j", 2, most=8, locality=Locality(Level.SOCKET)), "n0", 0x03)]
    frame = World(view(cluster(2), jobs)).cycle()
    assert placed(frame, "j").bits() == {"n0": 0x0F}


def test_a_job_already_wider_than_more_devices_would_allow_is_left_as_it_is() -> None:
    """Two devices across the rack are tolerable with 45 % more; with 8 a node is so much better."""
    wide = job("wide", 2, most=8, locality=Locality(max_slowdown=0.3))
    state = running(wide, placement(("n0", 1), ("n1", 1)))
    World(view(cluster(2), [state])).cycle()  # must not fail; `check` holds the contract


def test_servers_grow_in_step_with_workers() -> None:
    spec = RoleSpec(Role.SERVER, Need(0, 1_000, 0), 1, 1, 3)
    asked = job("ps", 2, most=6)
    world = World(view(cluster(1), [replace(asked, roles=(*asked.roles, spec))]))
    frame = world.cycle()
    assert placed(frame, "ps").count(Role.WORKER) == 6
    assert placed(frame, "ps").count(Role.SERVER) == 3


def test_a_job_whose_option_has_several_types_grows_on_the_one_it_has() -> None:
    there = mixed((1, node_set()), (1, node_set("b", device_type="A30")))
    frame = World(view(there, [on(job("j", 2, most=12), "n0", 0x03)])).cycle()
    assert placed(frame, "j").bits() == {"n0": 0xFF}


def test_a_job_on_two_types_keeps_what_it_has() -> None:
    there = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))
    state = running(job("j", 2, most=12, same_generation=False), placement(("n0", 0x01), ("n1", 0x01)))
    world = World(view(there, [state]))
    frame = world.cycle()
    assert frame.reason("j").code is Code.CONTINUES
    assert {frame.decided.entitlements.of("default", t) for t in ("A100", "V100")} != {0}


def test_a_job_without_devices_grows_by_its_cores() -> None:
    asked = job("cpu", 1, most=4, need=Need(0, 1_000, 0))
    frame = World(view(cluster(1), [asked])).cycle()
    assert placed(frame, "cpu").count(Role.WORKER) == 4


def test_jobs_without_devices_count_in_no_pool() -> None:
    asked = [job(f"cpu{i}", need=Need(0, 1_000, 0)) for i in range(3)]
    frame = World(view(cluster(1), asked, flat(default=Quota(limit=0)))).cycle()
    assert len(frame.of(Kind.START)) == 3


def test_a_job_that_leaves_its_growth_to_a_newcomer_does_not_take_it_back() -> None:
    world = World(view(cluster(1), [job("elastic", 2, most=8)]))
    world.settle()
    world.settle()
    world.submit(job("new", 3))
    world.settle()
    world.settle()
    world.complete()
    assert sum(bits.bit_count() for bits in world.bits("elastic").values()) == 5
    for _ in range(3):
        assert not world.settle(100.0).of(Kind.RESIZE, Kind.PREEMPT)
    world.end("new")
    frame = world.settle()
    assert placed(frame, "elastic").devices == 8


def test_an_asked_job_is_never_given_more_than_its_most() -> None:
    asked = Job("j", roles=(RoleSpec(Role.WORKER, Need(1), 1, 1, 3),))
    frame = World(view(cluster(1), [asked])).cycle()
    assert placed(frame, "j").devices == 3
