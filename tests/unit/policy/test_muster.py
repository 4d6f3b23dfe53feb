"""Muster's own policy on cases small enough to be worked by hand. Speeds in work per s."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, Phase, View
from muster.perf.learnt.tables import ByType
from muster.policy.base import Allocation, Shares
from muster.policy.market.bids import STANDS
from muster.policy.muster import Muster
from tests import builders
from tests.numbers import by_number, name_of, number
from tests.unit.policy.deal import devices

LINEAR = Table(tuple(float(k) for k in range(1, 9)))
ROOT_LAW = Table(tuple(k**0.5 for k in range(1, 9)))
EIGHT = builders.cluster(1)
TWO_BY_FOUR = builders.cluster(2, builders.node_set(devices=4))


def job(name: str, **fields: Any) -> Job:
    """One to eight workers, and nothing lost in a change, unless told otherwise."""
    return builders.job(name, **{"gang": 1, "most": 8, "pause": 0.0, **fields})


def ask(
    view: View,
    outlooks: Mapping[str, Outlook],
    now: float = 0.0,
    policy: Muster | None = None,
    memory: object = None,
) -> Shares:
    """What the policy says when all of the cluster is for all pools."""
    whole = view.cluster.devices_by_type()
    entitled = {(pool, each): n for pool in view.pools.pools for each, n in whole.items()}
    told = replace(view, outlooks=by_number(outlooks))
    return (policy or Muster()).allocate(told, Entitlements(entitled, whole), now, memory)


def counts(shares: Shares) -> dict[str, int]:
    """Workers by job."""
    assert shares.steers
    assert all(each.least == each.most for each in shares.allocations)
    return {name_of(each.job): each.most for each in shares.allocations}


def said(shares: Shares, name: str) -> Allocation:
    """What was said of a job."""
    return next(each for each in shares.allocations if each.job == number(name))


def on(asked: Job, *places: tuple[str, int], **fields: Any) -> JobState:
    """The job running there for a long time."""
    return builders.running(asked, builders.placement(*places), **{"since": -1e6, **fields})


def each_device(node: str, count: int, first: int = 0) -> list[tuple[str, int]]:
    """One worker on each of this many devices of a node."""
    return [(node, 1 << bit) for bit in range(first, first + count)]


def test_shares_are_those_of_hesrpt() -> None:
    # p = 1/2, two jobs: the longer gets (1/2)^2 of the eight devices.
    view = builders.view(EIGHT, [job("long"), job("short")])
    shares = ask(view, {"long": Outlook(1000.0, ROOT_LAW), "short": Outlook(999.0, ROOT_LAW)})
    assert counts(shares) == {"long": 2, "short": 6}


def test_of_linear_jobs_the_shorter_goes_first() -> None:
    view = builders.view(EIGHT, [job("long"), job("short")])
    shares = ask(view, {"long": Outlook(1000.0, LINEAR), "short": Outlook(10.0, LINEAR)})
    assert counts(shares) == {"long": 0, "short": 8}


def test_a_long_job_is_not_fed_first() -> None:
    # Optimus' gain, the fall of the time left with one worker more, is 100 times that of the short job.
    view = builders.view(EIGHT, [job("long"), job("short")])
    outlooks = {"long": Outlook(100_000.0, ROOT_LAW), "short": Outlook(1000.0, ROOT_LAW)}
    dealt = counts(ask(view, outlooks))
    assert dealt["short"] == 6


def test_work_is_compared_by_the_time_it_takes() -> None:
    # A million quick steps, 8,000 / s on one device, are less than a thousand slow ones at 1 / s.
    quick = Table(tuple(8_000.0 * k for k in range(1, 9)))
    view = builders.view(EIGHT, [job("quick"), job("slow")])
    shares = ask(view, {"quick": Outlook(1e6, quick), "slow": Outlook(1e3, LINEAR)})
    assert counts(shares) == {"quick": 8, "slow": 0}


def test_no_job_gets_what_it_cannot_use() -> None:
    flat = Table((1.0, 2.0, 2.0, 1.5))
    view = builders.view(EIGHT, [job("a", most=4), job("b", most=4)])
    assert counts(ask(view, {name: Outlook(10.0, flat) for name in "ab"})) == {"a": 2, "b": 2}


def test_a_gang_is_had_whole_or_not_at_all() -> None:
    view = builders.view(EIGHT, [job("gang", gang=6), job("short")])
    outlooks = {"gang": Outlook(1000.0, LINEAR), "short": Outlook(10.0, Table((1.0, 1.5, 1.75)))}
    assert counts(ask(view, outlooks)) == {"gang": 6, "short": 2}


@pytest.mark.parametrize(("left", "workers"), [(80.0, 4), (8_000.0, 8)])
def test_a_running_job_grows_only_if_that_gains_more_than_the_pause(left: float, workers: int) -> None:
    # 80 left on 4 devices take 20 s; on 8 they would take 30 + 10 s. 8,000 take 2,000 s or 1,030 s.
    state = on(job("a", pause=30.0), *each_device("n0", 4))
    assert counts(ask(builders.view(EIGHT, [state]), {"a": Outlook(left, LINEAR)})) == {"a": workers}


def test_a_small_gain_is_not_worth_a_pause_within_the_horizon() -> None:
    # One device more raises the speed from 7 to 7.2, by 3 %; 30 of 600 s are 5 %.
    nearly = Table((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.2))
    state = on(job("a", pause=30.0), *each_device("n0", 7))
    view = builders.view(EIGHT, [state])
    assert counts(ask(view, {"a": Outlook(1e6, nearly)})) == {"a": 7}
    assert counts(ask(view, {"a": Outlook(1e6, nearly)}, policy=Muster(horizon=3_000.0))) == {"a": 8}


def test_a_resize_and_a_start_have_prices_of_their_own() -> None:
    # The gain of 3 % again: a job measured to be resized in 50 ms takes it, though a start takes 60 s.
    nearly = Table((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.2))
    state = on(job("a", pause=30.0), *each_device("n0", 7))
    measured = Outlook(1e6, nearly, resize=0.05, start=60.0)
    assert counts(ask(builders.view(EIGHT, [state]), {"a": measured})) == {"a": 8}
    # One that must restart to change its tasks pays the start.
    rigid = on(job("a", pause=30.0, restarts=True), *each_device("n0", 7))
    assert counts(ask(builders.view(EIGHT, [rigid]), {"a": measured})) == {"a": 7}


def test_a_job_that_takes_long_to_start_does_not_displace_what_runs() -> None:
    # 80 of work on 8 devices take 10 s; a start of a minute is not worth the other's devices.
    long = on(job("long"), *each_device("n0", 8))
    view = builders.view(EIGHT, [long, job("short")])
    quick = {"long": Outlook(1e5, LINEAR), "short": Outlook(80.0, LINEAR, start=0.5)}
    assert counts(ask(view, quick))["short"] > 0
    slow = {"long": Outlook(1e5, LINEAR), "short": Outlook(80.0, LINEAR, start=600.0)}
    assert counts(ask(view, slow))["short"] == 0


def test_a_job_makes_way_only_if_that_pays_for_both_pauses() -> None:
    # The short job has 10 s of work on 8 devices. To give it 4 of the long one's costs the long one
    # its pause too: (price 1/8) * 4 * 30 / 600 and 4 of its devices.
    long = on(job("long", pause=30.0), *each_device("n0", 8))
    view = builders.view(EIGHT, [long, job("short", pause=30.0)])
    brief = counts(ask(view, {"long": Outlook(1e6, LINEAR), "short": Outlook(8.0, LINEAR)}))
    assert brief == {"long": 8, "short": 0}
    worthy = counts(ask(view, {"long": Outlook(1e6, LINEAR), "short": Outlook(8_000.0, LINEAR)}))
    assert worthy["short"] > 0


def test_a_job_that_lies_badly_is_placed_again() -> None:
    # 2 + 2 devices on two nodes give it 1.5 where 4 on one would give 4: even 3 on one are better. Of
    # four at the least it cannot have fewer, and grows.
    places = [*each_device("n0", 2), *each_device("n1", 2)]
    outlooks = {"a": Outlook(1e5, Table((1.0, 2.0, 3.0, 4.0)), here=1.5)}
    view = builders.view(TWO_BY_FOUR, [on(job("a", most=4, pause=30.0), *places)])
    assert counts(ask(view, outlooks)) == {"a": 3}
    # What is slow where it could not lie better is slow for another reason, and is left alone.
    packed = builders.view(TWO_BY_FOUR, [on(job("a", most=4, pause=30.0), *each_device("n0", 4))])
    assert counts(ask(packed, outlooks)) == {"a": 4}
    # And nothing has been measured before its pause is over.
    fresh = on(job("a", most=4, pause=30.0), *places, since=90.0)
    assert counts(ask(builders.view(TWO_BY_FOUR, [fresh]), outlooks, now=100.0)) == {"a": 4}


def test_nobody_starves() -> None:
    # The gang of 8 is due 8 / 2 jobs / 8 = half a device: 600 s of its gang after 8 * 600 / 0.5 s.
    outlooks = {"long": Outlook(1e6, LINEAR), "short": Outlook(10.0, LINEAR)}
    long = JobState(job("long", gang=8), Phase.WAITING, submitted=0.0)
    short = JobState(job("short"), Phase.WAITING, submitted=9_599.0)
    view, by_price = builders.view(EIGHT, [long, short]), Muster(fair=0.0)
    before = ask(view, outlooks, 9_599.0, by_price)
    assert counts(before) == {"long": 0, "short": 8}
    assert before.again == pytest.approx(9_600.0)
    after = ask(view, outlooks, 9_600.0, by_price)
    assert counts(after) == {"long": 8, "short": 0}
    assert after.allocations[0].job == number("long")


@pytest.mark.parametrize(("now", "keeps"), [(10_100.0, True), (10_201.0, False)])
def test_who_was_overdue_keeps_its_gang_for_the_horizon(now: float, keeps: bool) -> None:
    long = on(job("long", gang=8), *each_device("n0", 8), submitted=0.0, since=9_600.0)
    view = builders.view(EIGHT, [long, JobState(job("short"), Phase.WAITING, submitted=9_599.0)])
    outlooks = {"long": Outlook(1e6, LINEAR), "short": Outlook(10.0, LINEAR)}
    assert (counts(ask(view, outlooks, now, Muster(fair=0.0)))["long"] == 8) is keeps


def test_of_several_overdue_the_most_overdue_goes_first() -> None:
    jobs = [JobState(job(n, gang=8), Phase.WAITING, submitted=at) for n, at in (("b", 0.0), ("a", 9.0))]
    outlooks = {"a": Outlook(10.0, LINEAR), "b": Outlook(1e6, LINEAR)}
    assert counts(ask(builders.view(EIGHT, jobs), outlooks, now=1e5)) == {"a": 0, "b": 8}


def test_a_pool_deals_only_what_it_may_use() -> None:
    pools = PoolTree({name: Pool(name, quotas={"A100": Quota(reservation=4)}) for name in ("p", "q")})
    jobs = [job("short", pool="p"), job("middle", pool="p"), job("long", pool="q")]
    view = builders.view(EIGHT, jobs, pools)
    outlooks = {
        name: Outlook(left, LINEAR) for name, left in (("short", 1.0), ("middle", 2.0), ("long", 3.0))
    }
    entitled = Entitlements({("p", "A100"): 4, ("q", "A100"): 4}, {"A100": 8})
    shares = Muster().allocate(replace(view, outlooks=by_number(outlooks)), entitled, 0.0, None)
    assert counts(shares) == {"short": 4, "middle": 0, "long": 4}


def test_the_surer_of_two_goes_first() -> None:
    # 100 s, give or take a factor of e (spread 1), are as urgent as 147 s for sure (see uncertainty).
    view = builders.view(EIGHT, [job("vague"), job("sure")])
    outlooks = {"vague": Outlook(100.0, LINEAR, spread=1.0), "sure": Outlook(140.0, LINEAR)}
    assert counts(ask(view, outlooks)) == {"vague": 0, "sure": 8}
    outlooks["sure"] = Outlook(155.0, LINEAR)
    assert counts(ask(view, outlooks)) == {"vague": 8, "sure": 0}


@pytest.mark.parametrize(("restarts", "first"), [(False, "vague"), (True, "sure")])
def test_a_job_whose_end_tells_of_others_goes_sooner_if_others_can_shrink_for_it(
    restarts: bool, first: str
) -> None:
    # The end of "vague" tells of a second job: it is as urgent as 101 s for sure instead of 147.
    view = builders.view(EIGHT, [job("vague", restarts=restarts), job("sure", restarts=restarts)])
    vague = Outlook(100.0, LINEAR, spread=1.0, tells=2)
    found = counts(ask(view, {"vague": vague, "sure": Outlook(140.0, LINEAR)}))
    assert max(found, key=lambda each: found[each]) == first


def test_a_step_of_priority_counts_double() -> None:
    # Weighted, the shorter is the one with less time for its weight: 100 / 4 against 30.
    view = builders.view(EIGHT, [job("urgent", priority=2), job("short")])
    outlooks = {"urgent": Outlook(100.0, LINEAR), "short": Outlook(30.0, LINEAR)}
    assert counts(ask(view, outlooks)) == {"urgent": 8, "short": 0}
    assert counts(ask(view, {**outlooks, "short": Outlook(20.0, LINEAR)})) == {"urgent": 0, "short": 8}


def test_each_job_gets_the_type_it_makes_most_of() -> None:
    mixed = builders.mixed(
        (1, builders.node_set("new", device_type="A100", devices=4)),
        (1, builders.node_set("old", device_type="V100", generation="volta", devices=4)),
    )
    picky = ByType((("A100", Table((2.0, 4.0, 6.0, 8.0))), ("V100", Table((0.1, 0.2, 0.3, 0.4)))))
    easy = ByType((("A100", Table((2.0, 4.0, 6.0, 8.0))), ("V100", Table((1.9, 3.8, 5.7, 7.6)))))
    view = builders.view(mixed, [job("easy", most=4), job("picky", most=4)])
    shares = ask(view, {"easy": Outlook(100.0, easy), "picky": Outlook(100.0, picky)})
    assert counts(shares) == {"easy": 4, "picky": 4}
    assert said(shares, "picky").device_type == "A100"
    assert said(shares, "easy").device_type == "V100"


def test_a_job_is_told_the_batch_that_goes_with_its_devices() -> None:
    speed = Table((1.0, 2.0, 3.0, 4.0), (32, 64, 96, 128))
    state = on(job("a", most=4, pause=30.0), *each_device("n0", 4), batch=120)
    view = builders.view(EIGHT, [state])
    assert said(ask(view, {"a": Outlook(1e6, speed, here=3.9)}), "a").batch == 128


@dataclass(frozen=True, slots=True)
class Served:
    """Work per s is that of workers and servers, whichever are fewer."""

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        return float(min(workers, servers))

    def batch(self, device_type: str, workers: int) -> int | None:
        return None


def test_workers_get_the_fewest_servers_that_do_not_hold_them_up() -> None:
    asked = builders.job("a", 1, most=4, servers=1)
    asked = replace(asked, roles=(asked.roles[0], replace(asked.roles[1], gang=1, most=6)))
    shares = ask(builders.view(EIGHT, [asked]), {"a": Outlook(1e6, Served())})
    assert (said(shares, "a").most, said(shares, "a").servers) == (4, 4)


def test_what_is_in_the_middle_of_a_change_is_left_alone_and_counted() -> None:
    # The long job is being shrunk to 2; asked again, the policy still wants 6 for the short one.
    places = each_device("n0", 8)
    long = on(job("long"), *places)
    outlooks = {"long": Outlook(1000.0, ROOT_LAW), "short": Outlook(999.0, ROOT_LAW)}
    assert counts(ask(builders.view(EIGHT, [long, job("short")]), outlooks)) == {"long": 2, "short": 6}
    shrinking = replace(long, phase=Phase.RESIZING, target=builders.placement(*places[:2]))
    again = ask(builders.view(EIGHT, [shrinking, job("short")]), outlooks)
    assert counts(again) == {"short": 6}
    shrunk = on(job("long"), *places[:2], since=0.0)
    done = ask(builders.view(EIGHT, [shrunk, job("short")]), outlooks)
    assert counts(done) == {"long": 2, "short": 6}


def test_a_job_stopped_to_be_resized_is_wanted_as_before() -> None:
    long = on(job("long", pause=30.0, restarts=True), *each_device("n0", 8))
    outlooks = {"long": Outlook(50_000.0, ROOT_LAW), "short": Outlook(9_000.0, ROOT_LAW)}
    first = counts(ask(builders.view(EIGHT, [long, job("short", pause=30.0)]), outlooks))
    assert 0 < first["long"] < 8
    stopped = JobState(long.job, Phase.WAITING, submitted=0.0)
    second = ask(builders.view(EIGHT, [stopped, job("short", pause=30.0)]), outlooks)
    assert counts(second) == first


def test_unknown_jobs_are_dealt_to_as_well() -> None:
    view = builders.view(EIGHT, [job("told"), job("unknown", most=4)])
    dealt = counts(ask(view, {"told": Outlook(1e5, LINEAR)}))
    assert dealt == {"told": 4, "unknown": 4}


def test_a_job_without_devices_gets_its_gang() -> None:
    need = builders.SERVER_TASK
    view = builders.view(EIGHT, [job("cpu", gang=2, need=need)])
    assert counts(ask(view, {})) == {"cpu": 2}


def test_what_it_remembers_changes_nothing() -> None:
    view = builders.view(EIGHT, [job("long"), job("short")])
    outlooks = {"long": Outlook(1000.0, ROOT_LAW), "short": Outlook(999.0, ROOT_LAW)}
    entitled = Entitlements({("default", "A100"): 8}, {"A100": 8})
    told = replace(view, outlooks=by_number(outlooks))
    first = Muster().allocate(told, entitled, 0.0, None)
    assert Muster().allocate(told, entitled, 0.0, first.memory) == first
    # Fewer devices, or another speed: what is remembered does not count.
    fewer = Entitlements({("default", "A100"): 4}, {"A100": 4})
    again = Muster().allocate(told, fewer, 0.0, first.memory)
    assert again.allocations == Muster().allocate(told, fewer, 0.0, None).allocations
    faster = replace(view, outlooks=by_number({**outlooks, "long": Outlook(1000.0, LINEAR)}))
    recalled = Muster().allocate(faster, entitled, 0.0, first.memory)
    assert recalled.allocations == Muster().allocate(faster, entitled, 0.0, None).allocations


def test_a_job_whose_user_asks_for_more_is_not_held_to_what_it_asked_for() -> None:
    outlooks = {"a": Outlook(1000.0, LINEAR)}
    before = job("a", gang=1, most=1)
    one = builders.view(EIGHT, [on(before, ("n0", 1))])
    first = ask(one, outlooks)
    assert counts(first) == {"a": 1}
    more = builders.view(EIGHT, [on(job("a", gang=2, most=4), ("n0", 1))])
    assert counts(ask(more, outlooks, memory=first.memory)) == {"a": 4}


@pytest.mark.parametrize(("waiting", "spread", "stays"), [(1, 0.0, 0), (1, 1.6, 8), (4, 1.6, 0)])
def test_on_a_guess_a_job_is_stopped_only_if_several_wait_for_it(
    waiting: int, spread: float, stays: int
) -> None:
    # By their prices the devices are worth twice as much to the shorter of two jobs, and five times to
    # the shortest of five. With lengths known to a factor exp(1.6) it takes exp(1.6) = 4.95.
    names = [f"new-{i}" for i in range(waiting)]
    state = on(job("old", gang=8), *each_device("n0", 8))
    view = builders.view(EIGHT, [state, *(job(name, gang=8) for name in names)])
    shorter = Outlook(1_200.0, LINEAR, spread=spread)
    outlooks = {"old": Outlook(20_000.0, LINEAR, spread=spread)} | dict.fromkeys(names, shorter)
    found = counts(ask(view, outlooks))
    assert found["old"] == stays
    assert sum(found.values()) == 8


def test_a_job_of_unknown_length_shrinks_for_another() -> None:
    state = on(job("old"), *each_device("n0", 8))
    view = builders.view(EIGHT, [state, job("new", gang=4, most=4)])
    outlooks = {
        "old": Outlook(20_000.0, LINEAR, spread=1.3),
        "new": Outlook(1_200.0, LINEAR, spread=1.3),
    }
    assert counts(ask(view, outlooks)) == {"old": 4, "new": 4}


def test_a_job_that_can_shrink_is_stopped_by_prices() -> None:
    # It would keep a device that is worth more to those that are believed to end soon.
    state = on(job("old"), *each_device("n0", 8))
    view = builders.view(EIGHT, [state, job("new", gang=8)])
    outlooks = {
        "old": Outlook(20_000.0, LINEAR, spread=2.0),
        "new": Outlook(1_200.0, LINEAR, spread=2.0),
    }
    assert counts(ask(view, outlooks)) == {"old": 0, "new": 8}


def test_a_waiting_gang_is_served_in_the_end_whatever_runs() -> None:
    state = on(job("old", gang=8), *each_device("n0", 8))
    view = builders.view(EIGHT, [state, job("new", gang=8)])
    outlooks = {name: Outlook(1e6, LINEAR, spread=1.5) for name in ("old", "new")}
    assert counts(ask(view, outlooks, now=9_000.0))["new"] == 0
    assert counts(ask(view, outlooks, now=9_601.0))["new"] == 8


def _changes(beliefs: Sequence[Outlook], since: float) -> list[int]:
    """The workers of a job of two at most whose resizes cost next to nothing, second by second."""
    workers, memory, found = 2, None, [2]
    pair = job("a", most=2, pause=0.05)
    for now, believed in enumerate(beliefs):
        state = on(pair, *each_device("n0", workers), since=since)
        shares = ask(builders.view(EIGHT, [state]), {"a": believed}, float(now), memory=memory)
        memory = shares.memory
        if counts(shares)["a"] != workers:
            workers, since = counts(shares)["a"], float(now)
            found.append(workers)
    return found


ONE_IS_BEST, TWO_ARE_BEST = (Outlook(1e4, Table(rates), here=1.0) for rates in ((1.0, 0.7), (1.0, 1.9)))


def test_restless_beliefs_do_not_make_a_job_go_to_and_fro() -> None:
    """Each measurement says the contrary of the one before; a resize costs 50 ms."""
    flips = [ONE_IS_BEST, ONE_IS_BEST, TWO_ARE_BEST, TWO_ARE_BEST] * 8
    assert len(_changes(flips, since=-1e6)) <= 1 + len(flips) // STANDS


def test_what_was_just_started_is_not_shrunk_by_beliefs_before_it_was_measured() -> None:
    memory = ask(builders.view(EIGHT, [job("a", most=2)]), {"a": TWO_ARE_BEST}).memory
    fresh = builders.view(EIGHT, [on(job("a", most=2), *each_device("n0", 2), since=0.0)])
    assert counts(ask(fresh, {"a": ONE_IS_BEST}, now=5.0, memory=memory)) == {"a": 2}
    assert counts(ask(fresh, {"a": ONE_IS_BEST}, now=1.0 + STANDS, memory=memory)) == {"a": 1}


def test_a_job_in_its_first_seconds_makes_way_by_shrinking() -> None:
    """It has just been given everything; another comes. To stop it would cost its start again."""
    first = on(job("first", pause=10.0), *each_device("n0", 8), since=0.0, started=0.0)
    view = builders.view(EIGHT, [first, job("second", pause=10.0)])
    outlooks = {"first": Outlook(4_000.0, ROOT_LAW), "second": Outlook(2_000.0, ROOT_LAW)}
    dealt = counts(ask(view, outlooks, now=2.0))
    assert 0 < dealt["first"] < 8 and dealt["second"] > 0


@pytest.mark.parametrize(("left", "stopped"), [(3_950.0, False), (2_000.0, True)])
def test_a_job_is_not_stopped_for_one_that_would_end_later_with_its_start(
    left: float, stopped: bool
) -> None:
    # 500 s left; the other would take 494 or 250 s, after a start of 10.
    gangs = [job(name, gang=8, most=8, pause=10.0) for name in ("first", "second")]
    view = builders.view(EIGHT, [on(gangs[0], *each_device("n0", 8), since=0.0), gangs[1]])
    outlooks = {"first": Outlook(4_000.0, LINEAR), "second": Outlook(left, LINEAR)}
    for now in (21.0, 60.0):
        dealt = counts(ask(view, outlooks, now=now))
        assert dealt == ({"first": 0, "second": 8} if stopped else {"first": 8, "second": 0})


def test_a_job_beside_a_loud_neighbour_grows_to_a_node_of_its_own() -> None:
    """It has five of a node's eight devices, and alone three more would hardly make it faster."""
    level = Table((1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 5.0, 5.1))
    state = on(job("a", pause=30.0), *each_device("n0", 5))
    view = builders.view(EIGHT, [state])
    for slowed, workers in ((1.0, 5), (1.5, 8)):
        assert counts(ask(view, {"a": Outlook(1e6, level, slowed=slowed)})) == {"a": workers}


@pytest.mark.parametrize(
    ("left", "age", "stopped"), [(600.0, 19.0, False), (1_100.0, 19.0, True), (1_100.0, 9.2, False)]
)
def test_a_job_that_has_started_lately_is_stopped_only_if_that_pays_for_another_start(
    left: float, age: float, stopped: bool
) -> None:
    # An eighth device would add 0.6 to the speed of `wide`, at twice the price, once its worker has
    # loaded, which takes 9 s. Until `wide` ends, after 79 s, that is worth 1.2 (1 - 9 / 79) = 1.06 of
    # what `long` makes of it: 0.06 x 79 = 5 gained. Then `long` would start again: 9 lost. With 1,100
    # left, it lasts for 145 s, and 0.13 x 145 = 18 are gained; but not before `long` has worked for the
    # 9 s that its start took.
    nearly = Table((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 7.6))
    outlooks = {
        "wide": Outlook(left, nearly, start=9.0, resize=0.1),
        "long": Outlook(4_000.0, LINEAR, start=9.0, resize=0.1),
    }
    wide = on(job("wide"), *each_device("n0", 7), started=-1e6, served=1e6)
    begun = 100.0 - age
    started = on(job("long"), ("n0", 1 << 7), since=begun, started=begun, served=1e6)
    shares = ask(builders.view(EIGHT, [wide, started]), outlooks, now=100.0)
    assert counts(shares) == ({"wide": 8, "long": 0} if stopped else {"wide": 7, "long": 1})


def test_a_job_that_has_just_started_shows_its_first_steps_before_it_makes_way() -> None:
    # `first` runs since 0.2 s, after a start of 27 s; a job of a tenth of it waits.
    gangs = [job(name, gang=8, most=8) for name in ("first", "second")]
    view = builders.view(EIGHT, [on(gangs[0], *each_device("n0", 8), started=0.0), gangs[1]])
    outlooks = {
        "first": Outlook(8_000.0, LINEAR, start=27.0),
        "second": Outlook(800.0, LINEAR, start=27.0),
    }
    shares = ask(view, outlooks, now=27.2)
    assert counts(shares) == {"first": 8, "second": 0}
    assert shares.again == 54.0
    assert counts(ask(view, outlooks, now=54.0)) == {"first": 0, "second": 8}


@pytest.mark.parametrize(("times", "dealt"), [(1, [1, 1]), (10, [2, 0])])
def test_a_job_is_not_stopped_for_workers_that_join_when_the_other_is_about_to_end(
    times: int, dealt: list[int]
) -> None:
    # `short` has 65 s left on one device, 33 on two; but a second worker takes 27 s to load, and `long`
    # as much to start again. With ten times as much left of both it pays.
    told = {
        "short": Outlook(65.0 * times, LINEAR, start=27.0, resize=0.001),
        "long": Outlook(206.0 * times, LINEAR, start=27.0, resize=0.001),
    }
    states = [on(job("short"), ("n0", 1), started=-1e3), on(job("long"), ("n0", 2), started=-1e3)]
    found = counts(ask(builders.view(devices(2), states), told, now=100.0))
    assert [found["short"], found["long"]] == dealt


def test_a_job_that_was_changed_often_is_changed_for_a_larger_gain_only() -> None:
    # Two devices more raise the speed by a tenth; a pause is 30 s. Changed once in 1,000 s, its share
    # lasts for 600 s, which the pause shortens by a twentieth; ten times, for 1,600 / 11 = 145 s.
    nearly = Table((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.3, 6.6))
    asked = job("a", pause=30.0)
    for generation, workers in ((1, 8), (11, 6)):
        state = on(asked, *each_device("n0", 6), generation=generation, run=1, submitted=0.0)
        view = builders.view(EIGHT, [state])
        dealt = counts(ask(view, {"a": Outlook(1e6, nearly)}, now=1_000.0))
        assert dealt == {"a": workers}


def test_the_longer_nothing_has_happened_the_later_it_looks_again() -> None:
    """`b` waits for all devices, which `a` has for hours. After an hour something happens."""
    four = builders.cluster(1, builders.node_set(devices=4))
    whole: dict[str, Any] = {"gang": 4, "most": 4}
    jobs: list[Job | JobState] = [
        on(job("a", **whole), *each_device("n0", 4), since=0.0),
        job("b", priority=-9, **whole),
    ]
    outlooks = {"a": Outlook(8e4, LINEAR), "b": Outlook(8e4, LINEAR)}
    seen, memory, looks, now = builders.view(four, jobs), None, list[float](), 0.0
    for _ in range(6):
        shares = ask(seen, outlooks, now, memory=memory)
        assert shares.asks
        memory, now = shares.memory, shares.again
        looks.append(now)
    assert looks == [60.0, 120.0, 240.0, 480.0, 960.0, 1560.0]
    changed = replace(seen, version=seen.version + 1)
    assert ask(changed, outlooks, 3600.0, memory=memory).again == 3660.0
