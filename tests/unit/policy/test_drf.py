"""Dominant resource fairness."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, Phase
from muster.planner.counts import plan_for
from muster.policy.base import Shares
from muster.policy.published.drf import Drf
from tests.builders import GB, cluster, job, mixed, node_set, running, slot, view
from tests.builders import placement as at
from tests.numbers import name_of, number

MANY = 100


def entitled(**devices: int) -> Entitlements:
    return Entitlements({("default", name): n for name, n in devices.items()}, devices)


def dealt(shares: Shares) -> dict[str, int]:
    assert shares.steers
    assert all(each.least == each.most for each in shares.allocations)
    return {name_of(each.job): each.most for each in shares.allocations}


def share_cores(
    jobs: Sequence[Job | JobState], *, cores: int, memory: int, policy: Drf
) -> dict[str, int]:
    """What jobs without devices get of one node."""
    there = cluster(1, node_set(devices=0, cores=cores, memory=memory * GB))
    return dealt(policy.allocate(view(there, jobs), entitled(), 0.0, None))


def task(cores: int, gigabytes: int) -> Need:
    return Need(millicores=cores * 1_000, memory=gigabytes * GB)


def test_the_papers_example() -> None:
    # Ghodsi et al., section 4.1: 9 CPUs and 18 GB; a task of A takes <1 CPU, 4 GB>, one of B <3 CPUs, 1
    # GB>. A's dominant resource is memory (4/18 = 2/9 a task), B's is CPU (3/9 = 1/3). Filling gives A
    # 3 tasks and B 2, both with a dominant share of 2/3; all 9 CPUs are in use then.
    a = job("a", 1, most=MANY, need=task(1, 4), user="A")
    b = job("b", 1, most=MANY, need=task(3, 1), user="B")
    assert share_cores([a, b], cores=9, memory=18, policy=Drf()) == {"a": 3, "b": 2}
    assert share_cores([a, b], cores=9, memory=18, policy=Drf(by="user")) == {"a": 3, "b": 2}


def test_a_user_with_many_jobs_gets_no_more_than_one_with_few() -> None:
    # 12 cores, tasks of 1: by user 6 and 6 (of the two jobs of A 3 each), by job 4 each.
    jobs = [job(name, 1, most=MANY, need=task(1, 1), user=name[0]) for name in ("a1", "a2", "b1")]
    by_user = share_cores(jobs, cores=12, memory=100, policy=Drf(by="user"))
    assert by_user == {"a1": 3, "a2": 3, "b1": 6}
    assert share_cores(jobs, cores=12, memory=100, policy=Drf()) == {"a1": 4, "a2": 4, "b1": 4}


def test_devices_are_a_resource_too() -> None:
    # 8 devices, 32 cores. `wide` takes 1/8 of the devices for a worker, `heavy` 8/32 = 1/4 of the
    # cores: in the end wide has 4 (4/8) and heavy 2 (16/32): 6 devices and 4 + 16 cores. The next is
    # wide's (older at equal shares): 5/8; then heavy's, 3/4: 5 + 24 cores, all 8 devices.
    wide = job("wide", 1, most=MANY, need=Need(1, 1_000, GB))
    heavy = job("heavy", 1, most=MANY, need=Need(1, 8_000, GB))
    seen = view(cluster(1, node_set(devices=8, cores=32)), [wide, heavy])
    assert dealt(Drf().allocate(seen, entitled(A100=8), 0.0, None)) == {"wide": 5, "heavy": 3}


def test_servers_count_and_come_in_step_with_workers() -> None:
    # 10 cores. A worker of `ps` comes with a server: 1 + 1 cores, 1/5; one of `alone` takes 1/10. With
    # 2 and 4 all 8 have 4/10 each; the next is ps's, 6/10, and all 10 cores are gone.
    worker = RoleSpec(Role.WORKER, task(1, 1), gang=1, least=1, most=8)
    server = RoleSpec(Role.SERVER, task(1, 1), gang=1, least=1, most=8)
    ps = Job("ps", roles=(worker, server), number=number("ps"))
    assert plan_for(ps, 3).count(Role.SERVER) == 3
    alone = job("alone", 1, most=8, need=task(1, 1))
    assert share_cores([ps, alone], cores=10, memory=100, policy=Drf()) == {"ps": 3, "alone": 4}


def test_a_gang_is_admitted_as_a_whole_or_not_at_all() -> None:
    # 8 devices: gangs of 5 and 2 are in, one of 4 is not; what is left, 1, goes to the smallest share,
    # `two`.
    jobs = [job("five", 5, most=8), job("four", 4, most=8), job("two", 2, most=8)]
    seen = view(cluster(1), jobs)
    assert dealt(Drf().allocate(seen, entitled(A100=8), 0.0, None)) == {"five": 5, "four": 0, "two": 3}


def test_shares_are_taken_back_from_a_job_that_had_more() -> None:
    grown = running(job("grown", 1, most=8), at(*(("n0", 1 << i) for i in range(8))))
    seen = view(cluster(1), [grown, job("new", 1, most=8)])
    assert dealt(Drf().allocate(seen, entitled(A100=8), 0.0, None)) == {"grown": 4, "new": 4}


def test_the_oldest_of_the_highest_priority_is_admitted_first() -> None:
    jobs = [job("old", 8), job("older", 8, priority=1), job("young", 8, priority=1)]
    seen = view(cluster(1), jobs)
    shares = Drf().allocate(seen, entitled(A100=8), 0.0, None)
    assert dealt(shares) == {"older": 8, "young": 0, "old": 0}


def test_jobs_that_cannot_be_changed_count_for_their_user() -> None:
    # u's fixed job holds 4 of 8; v gets the other 4 before u's second job has anything.
    fixed = running(
        job("fixed", 4, user="u", preemptible=False), at(*(("n0", 1 << i) for i in range(4)))
    )
    jobs: list[Job | JobState] = [
        fixed,
        job("more", 1, most=8, user="u"),
        job("other", 1, most=8, user="v"),
    ]
    seen = view(cluster(1), jobs)
    assert dealt(Drf(by="user").allocate(seen, entitled(A100=8), 0.0, None)) == {"more": 0, "other": 4}
    assert dealt(Drf().allocate(seen, entitled(A100=8), 0.0, None)) == {"more": 2, "other": 2}


def test_cores_of_jobs_in_the_middle_of_a_change_are_not_dealt_again() -> None:
    asked = job("changing", 1, need=task(6, 1))
    where = at(slot("n0", 0, need=task(6, 1)))
    changing = JobState(asked, Phase.STARTING, submitted=0.0, placement=where)
    waiting = job("waiting", 1, most=9, need=task(1, 1))
    assert share_cores([changing, waiting], cores=9, memory=18, policy=Drf()) == {"waiting": 3}


def test_a_pools_limit_holds() -> None:
    pools = PoolTree(
        {"x": Pool("x", quotas={"A100": Quota(limit=2)}), "y": Pool("y", quotas={"A100": Quota()})}
    )
    jobs = [job("a", 1, most=8, pool="x"), job("b", 1, most=8, pool="y")]
    seen = view(cluster(1), jobs, pools)
    room = Entitlements({("x", "A100"): 8, ("y", "A100"): 6}, {"A100": 8})
    assert dealt(Drf().allocate(seen, room, 0.0, None)) == {"a": 2, "b": 6}


def test_each_device_type_is_a_resource_and_a_job_keeps_to_one() -> None:
    # a (older) is admitted on A100, its favourite; b may only use V100. a: 4 of 4; b: 2 of 2.
    both = mixed(
        (1, node_set(devices=4)),
        (1, node_set("b", device_type="V100", generation="volta", devices=2)),
    )
    a = job("a", 1, most=8, device_types=("A100", "V100"))
    b = job("b", 1, most=8, device_types=("V100",))
    shares = Drf().allocate(view(both, [a, b]), entitled(A100=4, V100=2), 0.0, None)
    assert [(name_of(x.job), x.most, x.device_type) for x in shares.allocations] == [
        ("a", 4, "A100"),
        ("b", 2, None),
    ]


demands = st.lists(
    st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 8)), min_size=1, max_size=6
)


@given(demands)
def test_never_more_than_there_is_and_asked_twice_the_same(asked: list[tuple[int, int, int]]) -> None:
    jobs = [
        job(f"j{i}", gang, most=gang + 2, need=Need(1, cores * 1_000, GB))
        for i, (gang, _, cores) in enumerate(asked)
    ]
    seen = view(cluster(1, node_set(devices=8, cores=16)), jobs)
    shares = Drf().allocate(seen, entitled(A100=8), 0.0, None)
    assert shares == Drf().allocate(seen, entitled(A100=8), 0.0, None)
    plans = [plan_for(seen.jobs[a.job].job, a.most) for a in shares.allocations if a.most]
    assert sum(plan.devices for plan in plans) <= 8
    assert sum(plan.millicores for plan in plans) <= 16_000
