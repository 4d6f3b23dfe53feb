"""What jobs ask for, by pool and type, and what the quotas make of it."""

from dataclasses import replace

from muster.core.cycle.standing import Standing
from muster.core.quotas.demand import capacity, demands
from muster.core.quotas.pools import entitle
from muster.core.quotas.quotas import Quotas
from muster.model.cluster import Cluster
from muster.model.event import NodeDraining, NodeLost
from muster.model.job import Job, Need, Role
from muster.model.pool import Pool, PoolTree, Quota
from muster.model.reason import Code
from muster.model.view import JobState, Phase, View
from tests.builders import (
    GB,
    SERVER_TASK,
    cluster,
    job,
    mixed,
    node_set,
    placement,
    running,
    slot,
    view,
)
from tests.numbers import number
from tests.world import World, flat, on

BOTH = mixed((1, node_set()), (1, node_set("v", device_type="V100", generation="volta")))


def asked(seen: View) -> dict[tuple[str, str], int]:
    return demands(seen, capacity(seen.cluster))


def test_a_lost_node_counts_for_nothing_and_a_draining_one_with_what_runs_on_it() -> None:
    world = World(view(cluster(3), [on(job("j", 2), "n1", 0x03)]))
    world.happen(NodeLost("n0", 0.0), NodeDraining("n1", 0.0))
    assert capacity(world.view.cluster) == {"A100": 2 + 8}


def test_an_elastic_job_asks_for_its_most() -> None:
    assert asked(view(cluster(2), [job("j", 2, most=12)])) == {("default", "A100"): 12}


def test_a_job_without_devices_asks_for_none() -> None:
    assert not asked(view(cluster(1), [job("j", need=Need(0, 1_000, 0))]))


def test_a_running_job_asks_for_more_of_what_it_has() -> None:
    state = on(job("j", 2, most=6, device_types=("A100", "V100")), "n1", 0x03)
    assert asked(view(BOTH, [state])) == {("default", "V100"): 6}


def test_even_if_its_first_task_has_no_devices() -> None:
    """A server on the first node, workers on the second."""
    spec = job("ps", 2, servers=1, device_types=("A100", "V100"))
    where = placement(
        slot("n0", 0, role=Role.SERVER, need=SERVER_TASK), slot("n1", 1, 0), slot("n1", 2, 1)
    )
    assert asked(view(BOTH, [running(spec, where)])) == {("default", "V100"): 2}


def test_a_job_on_two_types_asks_for_both() -> None:
    state = running(
        job("j", 3, most=5, same_generation=False), placement(("n0", 1), ("n1", 1), ("n1", 2))
    )
    assert asked(view(BOTH, [state])) == {("default", "A100"): 1, ("default", "V100"): 4}


def test_a_waiting_job_asks_for_the_first_type_of_which_enough_is_left() -> None:
    jobs = [job("first", 6), job("second", 6), job("third", 6)]
    assert asked(view(BOTH, jobs)) == {("default", "A100"): 12, ("default", "V100"): 6}


def test_one_that_is_not_preemptible_asks_where_its_pool_has_reservation_left() -> None:
    quotas = {"A100": Quota(reservation=4), "V100": Quota(reservation=8)}
    tree = PoolTree({"default": Pool("default", quotas=quotas)})
    jobs = [job(f"j{i}", 4, preemptible=False) for i in range(3)]
    assert asked(view(BOTH, jobs, tree)) == {("default", "A100"): 4, ("default", "V100"): 8}
    frame = World(view(BOTH, jobs, tree)).cycle()
    assert all(d.reason.code is Code.STARTED for d in frame.decided.decisions)


def test_whatever_preemptible_jobs_of_the_pool_use_of_it() -> None:
    tree = PoolTree({"default": Pool("default", quotas={"A100": Quota(reservation=2)})})
    jobs: list[Job | JobState] = [on(job("loose", 6), "n0", 0x3F), job("fixed", 2, preemptible=False)]
    assert asked(view(BOTH, jobs, tree)) == {("default", "A100"): 8}
    assert World(view(BOTH, jobs, tree)).cycle().reason("fixed").code is Code.STARTED


def test_one_that_is_not_preemptible_may_have_what_is_reserved_of_a_type_it_did_not_ask_for() -> None:
    """The first type has the reservation, but its nodes not the memory."""
    small = node_set(memory=4 * GB)
    there = mixed((1, small), (1, node_set("v", device_type="V100", generation="volta")))
    quotas = {"A100": Quota(reservation=2), "V100": Quota(reservation=2)}
    tree = PoolTree({"default": Pool("default", quotas=quotas)})
    wants = job("fixed", 2, preemptible=False, need=Need(1, 1_000, 8 * GB))
    frame = World(view(there, [wants], tree)).cycle()
    assert frame.reason("fixed").code is Code.STARTED


def quotas(seen: View) -> Quotas:
    available = capacity(seen.cluster)
    return Standing(seen).quotas(entitle(seen.pools, available, demands(seen, available)))


def held(there: Cluster, *states: object) -> Quotas:
    return quotas(view(there, states))  # type: ignore[arg-type]


KEY = ("default", "A100")


def test_a_job_that_shrinks_is_in_use_with_what_it_will_have_and_held_with_what_it_has() -> None:
    state = on(job("j", 2, most=4), "n0", 0x0F, phase=Phase.RESIZING)
    state = replace(state, target=placement(("n0", 1), ("n0", 2)))
    found = held(cluster(1), state)
    assert (found.used[KEY], found.held[KEY]) == (2, 4)


def test_a_job_that_grows_is_in_use_and_held_with_what_it_will_have() -> None:
    state = on(job("j", 2, most=4), "n0", 0x03, phase=Phase.RESIZING)
    state = replace(state, target=placement(*(("n0", 1 << i) for i in range(4))))
    found = held(cluster(1), state)
    assert (found.used[KEY], found.held[KEY]) == (4, 4)


def test_a_job_that_moves_is_counted_once() -> None:
    state = on(job("j", 2), "n0", 0x03, phase=Phase.MIGRATING)
    state = replace(state, target=placement(("n1", 1), ("n1", 2)))
    found = held(cluster(2), state)
    assert (found.used[KEY], found.held[KEY]) == (2, 2)


def test_a_job_that_is_being_stopped_is_held_but_not_in_use() -> None:
    found = held(cluster(1), on(job("j", 2), "n0", 0x03, phase=Phase.PREEMPTING))
    assert (found.used[KEY], found.held[KEY]) == (0, 2)


def test_what_is_promised_binds_those_behind_but_is_no_excess() -> None:
    seen = view(cluster(1), [job("a", 6, pool="a"), job("b", 6, pool="b")], flat(a=Quota(), b=Quota()))
    found = quotas(seen)
    assert found.verdict(job("x", 4, pool="a"), {"A100": 4}) is None
    found.promise(seen.jobs[number("a")].job, {"A100": 4})
    assert found.verdict(job("x", 1, pool="a"), {"A100": 1}) is Code.WAITING_QUOTA
    assert found.excess("a", "A100") < 0
    found.promise(seen.jobs[number("a")].job, {"A100": 4}, sign=-1)
    assert found.verdict(job("x", 4, pool="a"), {"A100": 4}) is None


def test_a_pool_that_is_entitled_to_everything_is_bound_by_the_devices_alone() -> None:
    seen = view(cluster(1), [job("j", 12)])
    assert quotas(seen).verdict(seen.jobs[number("j")].job, {"A100": 12}) is None


def test_an_earmark_binds_the_younger_ones_of_the_pool_and_not_its_owner() -> None:
    tree = flat(a=Quota(reservation=4), b=Quota(reservation=4))
    seen = view(cluster(1), [job("old", 4, pool="a"), job("b", 8, pool="b")], tree)
    found = quotas(seen)
    old = seen.jobs[number("old")].job
    found.earmark(old, {"A100": 4}, fixed=False)
    assert found.verdict(old, {"A100": 4}) is None
    for borrow in (False, True):
        assert found.verdict(job("x", pool="a"), {"A100": 1}, borrow=borrow) is Code.WAITING_QUOTA
        assert found.verdict(job("x", pool="b"), {"A100": 1}, borrow=borrow) is None


def test_an_earmark_that_could_never_be_had_is_not_made() -> None:
    tree = flat(a=Quota(reservation=4), b=Quota(reservation=4))
    seen = view(cluster(1), [job("old", 6, pool="a"), job("b", 8, pool="b")], tree)
    found = quotas(seen)
    found.earmark(seen.jobs[number("old")].job, {"A100": 6}, fixed=False)
    assert not found.earmarked_for(seen.jobs[number("old")].job)
