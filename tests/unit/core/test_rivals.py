"""What a waiting job competes with: every policy says where it stands and who is ahead."""

from dataclasses import replace

import pytest

from muster.core.why.words import tell
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.model.pool import Quota
from muster.model.reason import Code, Measure
from muster.model.view import JobState, Phase
from muster.policy.base import exactly
from muster.policy.registry import POLICIES
from muster.policy.unknown import Linear
from tests.builders import cluster, job, node_set, view
from tests.numbers import number
from tests.unit.core.test_steer import steer
from tests.world import World, flat, on

FOUR = node_set(devices=4)


def crowded(policy: str) -> World:
    """Four devices, four jobs of four each: one starts, three wait."""
    world = World(view(cluster(1, FOUR), ()), policy=POLICIES[policy])
    for name in ("a", "b", "c", "d"):
        world.submit(job(name, 4, duration=3600.0))
        world.now += 10.0
    world.cycle()
    world.complete()
    return world


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_every_policy_tells_a_waiting_job_who_is_ahead(policy: str) -> None:
    world = crowded(policy)
    frame = world.cycle(5.0)
    runs = {state.job.name for state in world.view.jobs.values() if state.placement}
    ranks = {name: frame.reason(name).rank for name in {"a", "b", "c", "d"} - runs}
    assert len(ranks) == 3
    places = []
    for rank in ranks.values():
        assert rank is not None and rank.pool == "default" and rank.waiting == 3
        assert rank.ahead or rank.place == 1
        assert (rank.used, rank.entitled) == (4, 4)
        places.append(rank.place)
    assert sorted(places) == [1, 2, 3]


def test_the_default_policy_says_by_what_the_others_are_ahead() -> None:
    """The short one saves more waiting with each device."""
    short = on(job("short", 4, duration=600.0), "n0", 0x0F)
    long = job("long", 4, duration=36000.0)
    world = World(view(cluster(1, FOUR), [short, long]), now=10.0, policy=POLICIES["muster"])
    reason = world.cycle().reason("long")
    assert reason.rank is not None and reason.rank.measure is Measure.WORTH
    (ahead,) = reason.rank.ahead
    assert (ahead.name, ahead.devices) == ("short", 4)
    assert ahead.value is not None and reason.rank.value is not None
    assert ahead.value > reason.rank.value > 0
    assert "behind short (4 devices, " in tell(reason)


def test_who_comes_first_for_less_is_said_to_be_urgent() -> None:
    """The long one has waited long, and keeps its gang for a while, though the short one saves more."""
    long = on(job("long", 4), "n0", 0x0F, submitted=0.0, since=9_600.0)
    short = JobState(job("short", 4), Phase.WAITING, submitted=9_599.0)
    lengths = {number("long"): Outlook(1e6, Linear()), number("short"): Outlook(10.0, Linear())}
    seen = replace(view(cluster(1, FOUR), [long, short]), outlooks=lengths)
    # By itself: being late would make the long one worth more, too.
    policy = POLICIES.find("muster:fair=0")
    reason = World(seen, now=9_700.0, policy=policy).cycle().reason("short")
    assert reason.rank is not None
    (ahead,) = reason.rank.ahead
    assert ahead.name == "long" and ahead.urgent and not reason.rank.urgent
    assert ahead.value is not None and reason.rank.value is not None and ahead.value < reason.rank.value
    assert "behind long (4 devices, " in tell(reason) and ", urgent)" in tell(reason)


def test_who_was_served_after_a_job_is_not_said_to_be_ahead_of_it() -> None:
    """The wide job is the shorter one, but what runs may not be stopped."""
    stays = on(job("stays", 2, duration=36000.0, preemptible=False), "n0", 0x03)
    wide = job("wide", 4, duration=600.0)
    world = World(view(cluster(1, FOUR), [stays, wide]), now=10.0, policy=POLICIES["srtf"])
    reason = world.cycle().reason("wide")
    assert reason.rank is not None and reason.rank.ahead == ()
    assert "held by stays (2)" in tell(reason)


def test_a_policy_that_gives_a_job_nothing_that_would_fit_says_where_it_stands() -> None:
    told, _ = steer(cluster(1, FOUR), [job("j")], exactly(number("j"), 0))
    assert told["j"].reason.code is Code.WAITING_POLICY
    assert tell(told["j"].reason).startswith(
        "other jobs come first under the policy; next in pool default"
    )


def test_the_order_of_a_cycle_ends_with_those_that_wait_as_they_are_ranked() -> None:
    """Places in the queue and ranks agree."""
    world = crowded("srtf")
    world.submit(job("last", 4, duration=7200.0))
    frame = world.cycle(1.0)
    order = [frame.before.jobs[each].job.name for each in frame.decided.order]
    waiting = [name for name in order if frame.before.jobs[number(name)].placement is None]
    ranks = [frame.reason(name).rank for name in waiting]
    assert [rank.place for rank in ranks if rank is not None] == [1, 2, 3, 4]
    assert waiting[-1] == "last"


def test_jobs_of_other_pools_are_not_ahead() -> None:
    there: list[Job | JobState] = [on(job("theirs", 2, pool="b"), "n0", 0x03), job("j", 4, pool="a")]
    pools = flat(a=Quota(), b=Quota())
    told, _ = steer(cluster(1, FOUR), there, exactly(number("j"), 0), pools=pools)
    rank = told["j"].reason.rank
    assert rank is not None and rank.pool == "a" and not rank.ahead


# What a change gains, costs, and for whom


def test_a_job_that_makes_way_is_told_for_whom_by_what_and_at_which_cost() -> None:
    long = on(job("long", 4, duration=36000.0, pause=10.0), "n0", 0x0F, started=0.0)
    short = job("short", 4, duration=60.0)
    world = World(view(cluster(1, FOUR), [long, short]), now=7200.0, policy=POLICIES["srtf"])
    reason = world.cycle().reason("long")
    assert reason.code is Code.PREEMPTED_POLICY
    assert (reason.beneficiary, reason.given, reason.cost) == ("short", 4, 4 * 7210.0)
    assert "behind short (1m00s left)" in tell(reason)


def test_a_job_that_gives_up_some_devices_is_told_who_gets_them() -> None:
    wide = on(job("wide", 1, most=4, pause=5.0), "n0", 0x0F)
    told, _ = steer(
        cluster(1, FOUR), [wide, job("j", 2)], exactly(number("wide"), 2), exactly(number("j"), 2)
    )
    reason = told["wide"].reason
    assert (reason.code, reason.beneficiary, reason.given) == (Code.RESIZED_POLICY, "j", 2)
    assert reason.cost == 4 * 5.0


def test_a_job_that_grows_is_told_how_much_faster_it_is_expected_to_be() -> None:
    grows = on(job("grows", 1, most=4, pause=5.0), "n0", 0x01)
    seen = view(cluster(1, FOUR), [grows])
    seen = replace(seen, outlooks={number("grows"): Outlook(1e6, Linear(), 0.0)})
    reason = World(seen, now=1000.0).cycle().reason("grows")
    assert reason.code is Code.GROWN
    assert (reason.speed, reason.cost) == (4.0, 5.0)
    assert "expected to run at 4 times its speed" in tell(reason)
