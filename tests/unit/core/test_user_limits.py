"""A pool's limit of devices per user: who waits for it, what it says, and whom it leaves alone."""

from dataclasses import replace

import pytest

from muster.core.state.admit import refuse
from muster.core.why.words import names_for, tell
from muster.model.decision import Kind
from muster.model.pool import Pool, PoolError, PoolTree, Quota
from muster.model.reason import Code
from muster.policy.base import Policy
from muster.policy.muster import Muster
from muster.policy.published.fifo import Fifo
from tests.builders import cluster, job, view
from tests.world import World, on

POLICIES = [Fifo(), Muster()]


def pools(most: int, **more: Pool) -> PoolTree:
    lab = Pool("lab", quotas={"A100": Quota(reservation=8)}, devices_per_user=most)
    return PoolTree({"lab": lab, **more})


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_user_gets_no_more_than_the_limit_and_others_get_the_rest(policy: Policy) -> None:
    jobs = [job(f"a{i}", 2, pool="lab", user="ann") for i in range(3)]
    jobs.append(job("b", 4, pool="lab", user="bob"))
    world = World(view(cluster(1), jobs, pools(4)), 10.0, policy=policy)
    frame = world.cycle()
    assert frame.names(Kind.START) == {"a0", "a1", "b"}
    assert frame.reason("a2").code is Code.WAITING_USER_LIMIT
    world.complete()
    world.end("a0")
    assert world.cycle(1.0).names(Kind.START) == {"a2"}


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_job_grows_up_to_the_limit(policy: Policy) -> None:
    elastic = job("a", 1, most=8, pool="lab", user="ann")
    world = World(view(cluster(1), [elastic], pools(3)), 10.0, policy=policy)
    for _ in range(5):
        world.cycle(60.0)
        world.complete()
    assert sum(bits.bit_count() for bits in world.bits("a").values()) == 3


def test_the_reason_says_whose_use_it_is_and_of_what() -> None:
    held = on(job("old", 3, pool="lab", user="ann"), "n0", 0b111)
    other = on(job("theirs", 2, pool="lab", user="bob"), "n0", 0b11000)
    waits = job("new", 2, pool="lab", user="ann")
    world = World(view(cluster(1), [held, other, waits], pools(4)), 10.0)
    frame = world.cycle()
    reason = frame.reason("new")
    assert [holder.name for holder in reason.holders] == ["old"]
    text = tell(reason, names_for(frame.before, waits.number))
    assert "needs 2, ann uses 3 of 4 devices in pool lab; held by old (3)" in text


def test_the_limit_of_a_pool_binds_those_below_it() -> None:
    quota = {"A100": Quota(reservation=4)}
    tree = pools(2, x=Pool("x", "lab", quota), y=Pool("y", "lab", quota))
    jobs = [job("a", 2, pool="x", user="ann"), job("b", 2, pool="y", user="ann")]
    frame = World(view(cluster(1), jobs, tree), 10.0).cycle()
    assert frame.names(Kind.START) == {"a"}
    assert frame.reason("b").code is Code.WAITING_USER_LIMIT


def test_a_gang_above_the_limit_is_refused_with_one_that_could_run() -> None:
    found = refuse(job("a", 6, pool="lab", user="ann"), cluster(1), pools(4))
    assert found is not None
    assert found.why == "its gang takes 6 devices, pool 'lab' gives each user 4"
    assert found.nearest is not None
    assert found.nearest.value == "4"


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_limit_set_below_what_a_user_has_takes_nothing(policy: Policy) -> None:
    held = on(job("old", 6, pool="lab", user="ann"), "n0", 0b111111)
    waits = job("new", 1, pool="lab", user="ann")
    world = World(view(cluster(1), [held, waits], pools(4)), 10.0, policy=policy)
    frame = world.cycle()
    assert not frame.of(Kind.PREEMPT, Kind.RESIZE, Kind.START)
    assert frame.reason("new").code is Code.WAITING_USER_LIMIT


def test_a_limit_of_zero_is_no_limit_for_a_pool() -> None:
    with pytest.raises(PoolError, match="devices_per_user must be at least 1, not 0"):
        pools(0)


def test_reasons_name_no_jobs_of_others() -> None:
    """The device that both want: one's own job by name, another's by number only."""
    mine = on(job("mine", 4, user="ann"), "n0", 0xF)
    secret = on(job("secret", 4, user="bob"), "n0", 0xF0)
    waits = job("waits", 8, user="ann")
    frame = World(view(cluster(1), [mine, secret, waits]), 10.0).cycle()
    told = tell(frame.reason("waits"), names_for(frame.before, waits.number))
    assert "mine (4)" in told
    assert f"another user's job {secret.job.number} (4)" in told
    assert "secret" not in told
    assert "secret (4)" in tell(frame.reason("waits")), "whoever sees the whole view"


def test_who_a_job_makes_room_for_is_not_named_to_another_user() -> None:
    owned = PoolTree({n: Pool(n, quotas={"A100": Quota(reservation=4)}) for n in ("a", "b")})
    guest = on(job("guest", 8, pool="a", user="ann"), "n0", 0xFF)
    asks = job("secret", 4, pool="b", user="bob")
    frame = World(view(cluster(1), [guest, asks], owned), 10.0).cycle()
    (stopped,) = frame.of(Kind.PREEMPT)
    told = tell(stopped.reason, names_for(frame.before, stopped.job))
    assert f"for another user's job {asks.number}" in told
    assert "secret" not in told
    own = replace(frame.before.jobs[asks.number].job, user="ann")
    again = replace(frame.before.jobs[asks.number], job=own)
    same = replace(frame.before, jobs={**frame.before.jobs, asks.number: again})
    assert "for secret" in tell(stopped.reason, names_for(same, stopped.job))
