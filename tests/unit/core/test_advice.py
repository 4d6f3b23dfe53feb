"""What would start or enlarge a job: each kind of change, tried by deciding again."""

from muster.core.why.advice import Advice, AdviceQuestion, inquire
from muster.model.job import Locality
from muster.model.pool import Quota
from muster.model.reason import RequestChange
from muster.model.topology import Level
from muster.policy.registry import POLICIES
from tests.builders import cluster, job, mixed, node_set, view
from tests.numbers import number
from tests.world import World, flat, on

FOUR = node_set(devices=4)


def advised(
    world: World, name: str, policy: str = "muster", pools: tuple[str, ...] = ()
) -> dict[str, Advice]:
    """By the field that is changed."""
    asked = AdviceQuestion(world.view, world.now, world.memory, number(name), pools, highest=8)
    return {each.change.field: each for each in inquire(POLICIES[policy], asked).advice}


def test_fewer_workers_start_a_gang_that_does_not_fit() -> None:
    holds = on(job("holds", 2, preemptible=False), "n0", 0x03)
    world = World(view(cluster(1, FOUR), [holds, job("j", 4)]), now=10.0)
    found = advised(world, "j")["workers"]
    assert found == Advice(RequestChange("workers", "2"), 2, 2, at_once=True)


def test_an_elastic_job_keeps_its_most() -> None:
    holds = on(job("holds", 2, preemptible=False), "n0", 0x03)
    world = World(view(cluster(1, FOUR), [holds, job("j", 3, most=8)]), now=10.0)
    assert advised(world, "j")["workers"].change.value == "2..8"


def test_a_higher_priority_takes_the_devices_of_another_once_it_has_stopped() -> None:
    short = on(job("short", 4, duration=600.0, resumes=True), "n0", 0x0F, started=0.0)
    world = World(view(cluster(1, FOUR), [short, job("j", 4, duration=3600.0)]), now=100.0)
    found = advised(world, "j", "srtf")["priority"]
    assert (found.change.value, found.at_once, found.workers) == ("1", False, 4)


def test_a_wider_contract_is_another_submission() -> None:
    holds = [on(job(f"h{i}", 2, preemptible=False), f"n{i}", 0x03) for i in range(2)]
    asks = job("j", 4, locality=Locality(Level.NODE))
    world = World(view(cluster(2, FOUR), [*holds, asks]), now=10.0)
    found = advised(world, "j")["locality"]
    assert (found.change.value, found.again, found.at_once) == ("rack", True, True)


def test_another_type_that_is_free_is_named() -> None:
    there = mixed((1, FOUR), (1, node_set("b", device_type="V100", devices=4)))
    kind = there.device_types()[0]
    node = next(n.name for n in there.nodes if there.configuration_of(n).device_type == kind)
    holds = on(job("holds", 4, preemptible=False, device_types=(kind,)), node, 0x0F)
    world = World(view(there, [holds, job("j", 4, device_types=(kind,))]), now=10.0)
    found = advised(world, "j")["any_of"]
    assert found.change.value == there.device_types()[1] and found.again


def test_another_pool_is_named_if_its_user_may_use_it() -> None:
    tree = flat(a=Quota(limit=0), b=Quota())
    world = World(view(cluster(1, FOUR), [job("j", 2, pool="a")], tree), now=10.0)
    assert advised(world, "j", pools=("b",))["pool"].change.value == "b"
    assert "pool" not in advised(world, "j")


def test_a_job_that_has_all_it_asked_for_gets_more_if_it_asks_for_more() -> None:
    world = World(view(cluster(1, FOUR), [on(job("j", 1, most=2), "n0", 0x03)]), now=1000.0)
    found = advised(world, "j", "fifo")["workers"]
    assert (found.change.value, found.workers) == ("1..4", 4)


def test_nothing_is_advised_to_a_job_that_gets_what_it_waits_for_anyway() -> None:
    world = World(view(cluster(1, FOUR), [job("j", 4)]), now=10.0)
    assert advised(world, "j") == {}


def test_a_job_that_has_run_is_not_told_to_be_submitted_again() -> None:
    """It would lose its place and its checkpoints."""
    world = World(view(cluster(1, FOUR), [job("j", 4, locality=Locality(Level.NODE))]), now=10.0)
    world.cycle()
    world.complete()
    world.submit(job("vip", 4, priority=3, preemptible=False))
    for _ in range(3):
        world.settle()
    assert not any(each.again for each in advised(world, "j").values())
