"""Tiresias: two-dimensional attained service in discrete queues."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Job, Need
from muster.model.placement import Placement
from muster.model.pool import Entitlements, Pool, PoolTree, Quota, single_pool
from muster.model.view import JobState, Phase, View
from muster.policy.base import Shares
from muster.policy.published.tiresias import Remembered, Tiresias
from tests.builders import cluster, job, mixed, node_set, running, view
from tests.builders import placement as at
from tests.numbers import name_of, number

TWELVE = cluster(3, node_set(devices=4))
POLICY = Tiresias(thresholds=(80.0,))
"""Two queues: a job moves to the second at 80 device-s."""


def ask(
    jobs: list[Job | JobState],
    now: float,
    memory: object = None,
    *,
    policy: Tiresias = POLICY,
    pools: PoolTree | None = None,
) -> Shares:
    room = Entitlements({("default", "A100"): 12}, {"A100": 12})
    return policy.allocate(view(TWELVE, jobs, pools), room, now, memory)


def dealt(shares: Shares) -> list[tuple[str, int]]:
    assert shares.steers
    assert all(each.least == each.most for each in shares.allocations)
    return [(name_of(each.job), each.most) for each in shares.allocations]


def devices(first: int, count: int) -> Placement:
    """This many of the twelve devices, from this one on."""
    return at(*((f"n{i // 4}", 1 << i % 4) for i in range(first, first + count)))


def runs(
    name: str, first: int, count: int, *, since: float = 0.0, served: float = 0.0, **fields: Any
) -> JobState:
    asked = job(name, count, **fields)
    return running(asked, devices(first, count), since=since, served=served, started=since)


def waits(asked: Job, submitted: float, served: float = 0.0) -> JobState:
    return JobState(asked, Phase.WAITING, submitted=submitted, served=served)


def test_the_published_evaluation_has_two_queues_at_16_device_hours() -> None:
    assert Tiresias().thresholds == (16 * 3_600.0,)
    assert (Tiresias().name, Tiresias().informed, Tiresias().starve) == ("tiresias", False, None)


def test_where_all_fit_only_those_that_wait_are_named() -> None:
    shares = ask([runs("r", 0, 8), job("a", 1), job("b", 3)], 5.0)
    assert dealt(shares) == [("a", 1), ("b", 3)]
    assert shares.again == inf


def test_a_job_past_the_threshold_is_stopped_for_a_new_one() -> None:
    # 8 devices x 10 s = 80 device-s.
    jobs: list[Job | JobState] = [runs("r", 0, 8), waits(job("new", 8), 5.0)]
    assert dealt(ask(jobs, 9.0)) == []
    assert dealt(ask(jobs, 10.0)) == [("new", 8), ("r", 0)]


def test_it_asks_to_be_asked_when_the_next_running_job_crosses() -> None:
    # r crosses at 10; `late`, 4 devices since 6, would at 6 + 80 / 4 = 26. When r has crossed and is
    # stopped for `new`, that one crosses 80 / 8 = 10 s later.
    jobs: list[Job | JobState] = [
        runs("r", 0, 8),
        runs("late", 8, 4, since=6.0),
        waits(job("new", 8), 7.0),
    ]
    first = ask(jobs, 7.0)
    assert first.again == 10.0
    second = ask(jobs, 10.0, first.memory)
    assert dealt(second) == [("new", 8), ("r", 0)]
    assert second.again == 20.0


def test_later_smaller_jobs_may_run_where_a_larger_one_does_not_fit() -> None:
    jobs: list[Job | JobState] = [runs("r", 0, 8), job("large", 6), job("small", 3), job("more", 2)]
    assert dealt(ask(jobs, 5.0)) == [("small", 3)]


def test_the_second_queue_goes_by_arrival_in_it_not_by_submission() -> None:
    # old: 4 devices since 0, crosses at 20. young: 8 devices since 5, crosses at 15, so it goes first.
    # `new` takes 4 of the 12: young's 8 fit, old is stopped.
    old = replace(runs("old", 0, 4), submitted=0.0)
    young = replace(runs("young", 4, 8, since=5.0), submitted=5.0)
    shares = ask([old, young, waits(job("new", 4), 30.0)], 30.0)
    assert dealt(shares) == [("new", 4), ("old", 0)]


def test_a_job_stopped_in_the_second_queue_keeps_its_place_there() -> None:
    # a (8 devices) crosses at 10, b (4) at 20, and nobody is looking. At 30 c wants 8: c, then a (does
    # not fit), then b (fits).
    a, b = runs("a", 0, 8), runs("b", 8, 4)
    memory = ask([a, b], 25.0).memory
    shares = ask([a, b, waits(job("c", 8), 30.0)], 30.0, memory)
    assert dealt(shares) == [("c", 8), ("a", 0)]
    # c runs since 30 and crosses at 40: a (since 10), b (since 20), c (since 40). a has the devices
    # again.
    stopped = waits(a.job, 0.0, served=240.0)
    c = runs("c", 0, 8, since=30.0)
    later = ask([stopped, b, c], 31.0, shares.memory)
    assert (dealt(later), later.again) == ([], 40.0)
    assert dealt(ask([stopped, b, c], 40.0, later.memory)) == [("a", 8), ("c", 0)]


def test_a_job_that_lost_its_devices_unseen_is_in_the_queue_its_service_says() -> None:
    # Nobody saw `lost` cross: it counts from now on, after r, which crossed at 10.
    jobs: list[Job | JobState] = [runs("r", 0, 8), waits(job("lost", 12), 0.0, served=500.0)]
    shares = ask([*jobs, waits(job("new", 6), 20.0)], 20.0)
    assert dealt(shares) == [("new", 6), ("r", 0)]
    assert dealt(ask(jobs, 21.0, shares.memory)) == []


def test_three_queues() -> None:
    three = Tiresias(thresholds=(10.0, 100.0))
    jobs: list[Job | JobState] = [
        waits(job("third", 12), 0.0, served=100.0),
        waits(job("second", 12), 1.0, served=99.0),
        waits(job("first", 12), 2.0, served=9.0),
    ]
    assert dealt(ask(jobs, 5.0, policy=three)) == [("first", 12)]
    assert dealt(ask(jobs[:2], 5.0, policy=three)) == [("second", 12)]
    # first, 12 devices since 2 with 9 served: 10 at 2 + 1/12, 100 at 2 + 91/12.
    begun = runs("first", 0, 12, since=2.0, served=9.0)
    assert ask([begun, *jobs[:2]], 2.01, policy=three).again == pytest.approx(2 + 1 / 12)


def test_a_starving_job_returns_to_the_first_queue_and_its_service_is_forgiven() -> None:
    # s has run 10 s (80 device-s on 8) when `new` takes its devices at 10. With a limit of 2 it is
    # promoted once it has waited 20 s, at 30: after `next` (arrived at 25), before `later` (arrived at
    # 35).
    starving = Tiresias(thresholds=(80.0,), starve=2.0)
    s, new = runs("s", 0, 8), waits(job("new", 8), 5.0)
    shares = ask([s, new], 10.0, policy=starving)
    assert dealt(shares) == [("new", 8), ("s", 0)]
    stopped = waits(s.job, 0.0, served=80.0)
    begun = runs("new", 0, 8, since=10.0)
    shares = ask([stopped, begun], 10.0, shares.memory, policy=starving)
    assert (dealt(shares), shares.again) == ([], 20.0)
    # At 20 new crosses; s, which has been in the second queue since 10, goes before it. Say that
    # somebody else had all the devices until 36: by then s is back in the first queue.
    others = runs("others", 0, 12, since=20.0, served=80.0, preemptible=False)
    shares = ask([stopped, others], 20.0, shares.memory, policy=starving)
    assert shares.again == 30.0
    shares = ask([stopped, waits(job("next", 8), 25.0), others], 30.0, shares.memory, policy=starving)
    shares = ask([stopped, waits(job("next", 8), 25.0)], 36.0, shares.memory, policy=starving)
    assert dealt(shares) == [("next", 8)], "25 is before 30"
    shares = ask([stopped, waits(job("later", 8), 35.0)], 36.0, shares.memory, policy=starving)
    assert dealt(shares) == [("s", 8)]
    # Its 80 device-s are forgiven: it crosses again 10 s after 36.
    assert shares.again == 46.0


def test_without_a_limit_nobody_is_promoted() -> None:
    shares = ask([runs("s", 0, 8), waits(job("new", 8), 5.0)], 10.0)
    stopped = waits(job("s", 8), 0.0, served=80.0)
    fresh = waits(job("fresh", 8), 1e9)
    assert dealt(ask([stopped, fresh], 1e9, shares.memory)) == [("fresh", 8)]


def test_priority_goes_before_the_queues() -> None:
    jobs: list[Job | JobState] = [runs("r", 0, 8, priority=1), waits(job("new", 8), 20.0)]
    assert dealt(ask(jobs, 20.0)) == []


def test_jobs_that_cannot_be_changed_now_keep_their_devices() -> None:
    fixed = runs("fixed", 0, 4, preemptible=False)
    changing = replace(runs("changing", 4, 4), phase=Phase.MIGRATING)
    assert dealt(ask([fixed, changing, job("large", 6), job("small", 3)], 1e6)) == [("small", 3)]


def test_devices_of_a_job_being_stopped_are_dealt_already() -> None:
    leaving = replace(runs("leaving", 0, 12), phase=Phase.PREEMPTING)
    assert dealt(ask([leaving, job("next", 12)], 5.0)) == [("next", 12)]


def test_a_job_without_devices_is_always_started() -> None:
    free = job("free", 3, need=Need(millicores=100))
    assert dealt(ask([runs("r", 0, 12), job("waits", 4), free], 1.0)) == [("free", 3)]


def test_a_pools_limit_holds() -> None:
    quotas = {"x": Quota(limit=6), "y": Quota()}
    pools = PoolTree({name: Pool(name, quotas={"A100": quota}) for name, quota in quotas.items()})
    room = Entitlements({("x", "A100"): 12, ("y", "A100"): 12}, {"A100": 12})
    held = runs("held", 0, 4, pool="x")
    jobs: list[Job | JobState] = [
        held,
        job("three", 3, pool="x"),
        job("two", 2, pool="x"),
        job("y", 8, pool="y"),
    ]
    shares = POLICY.allocate(view(TWELVE, jobs, pools), room, 5.0, None)
    # held 4 + two 2 = 6; 6 left for y's 8.
    assert dealt(shares) == [("two", 2)]
    # Once held has crossed (at 20), the newer ones of its pool go first: three and two, 5; held's 4 do
    # not fit in 6, and 12 - 5 = 7 are left: too few for y.
    assert dealt(POLICY.allocate(view(TWELVE, jobs, pools), room, 20.0, None)) == [
        ("three", 3),
        ("two", 2),
        ("held", 0),
    ]


def test_a_job_that_is_not_preemptible_needs_reserved_devices() -> None:
    pools = single_pool({"A100": 2})
    fixed = [job("three", 3, preemptible=False), job("two", 2, preemptible=False)]
    assert dealt(ask([*fixed, job("other", 4)], 1.0, pools=pools)) == [("two", 2), ("other", 4)]


def test_of_several_types_the_first_with_room_is_named_and_who_runs_stays() -> None:
    both = mixed(
        (1, node_set(devices=4)), (1, node_set("b", device_type="V100", generation="volta", devices=4))
    )
    types = ("A100", "V100")
    stays = running(job("stays", 2, device_types=types), at(("n1", 1), ("n1", 2)), since=0.0)
    jobs: list[Job | JobState] = [
        stays,
        job("first", 3, device_types=types),
        job("next", 2, device_types=types),
    ]
    each = {"A100": 4, "V100": 4}
    room = Entitlements({("default", name): n for name, n in each.items()}, each)
    shares = POLICY.allocate(view(both, jobs), room, 1.0, None)
    assert [(name_of(a.job), a.most, a.device_type) for a in shares.allocations] == [
        ("first", 3, "A100"),
        ("next", 2, "V100"),
    ]


def test_what_it_remembers_is_only_about_live_jobs() -> None:
    memory = ask([runs("r", 0, 8), job("large", 12)], 5.0).memory
    assert isinstance(memory, Remembered)
    assert set(memory.rungs) == {number("r"), number("large")}
    memory = ask([runs("s", 0, 8), job("large", 12)], 6.0, memory).memory
    assert isinstance(memory, Remembered)
    assert set(memory.rungs) == {number("s"), number("large")}


def test_a_job_that_has_the_name_of_one_that_is_gone_begins_anew() -> None:
    # `other` (4 devices, 60 served) crosses at 5, the first r (8 devices) at 10. The second r is in the
    # first queue: it goes before `other`; in the place of the first it would go after.
    other = runs("other", 8, 4, served=60.0)
    memory = ask([other, runs("r", 0, 8), waits(job("large", 12), 1.0)], 20.0).memory
    shares = ask([other, waits(job("r", 12, number=number("r2")), 31.0)], 31.0, memory)
    assert dealt(shares) == [("r2", 12), ("other", 0)]


def queue_of(seen: View, now: float) -> list[JobState]:
    """The rule read naively, for jobs that have held the same devices all along."""

    def arrival(state: JobState) -> tuple[int, float]:
        if state.attained(now) < 80.0:
            return (0, state.submitted)
        assert state.placement is not None
        return (1, (state.since or 0.0) + 80.0 / state.placement.devices)

    return sorted(
        seen.jobs.values(), key=lambda state: (*arrival(state), state.submitted, state.number)
    )


states = st.lists(
    st.tuples(st.integers(1, 12), st.integers(0, 40), st.booleans()), min_size=1, max_size=8
)


@given(states)
def test_the_walk_is_that_of_the_naive_rule(drawn: list[tuple[int, int, bool]]) -> None:
    now, used, jobs = 41.0, 0, []
    for i, (count, moment, has) in enumerate(drawn):
        if has and used + count <= 12:
            state = replace(runs(f"j{i}", used, count, since=moment), submitted=float(moment))
            used += count
        else:
            state = waits(job(f"j{i}", count), float(moment))
        jobs.append(state)
    seen = view(TWELVE, jobs)
    room = Entitlements({("default", "A100"): 12}, {"A100": 12})
    shares = POLICY.allocate(seen, room, now, None)
    expected, left = {}, 12
    for state in queue_of(seen, now):
        count = state.job.workers.gang
        fits = count <= left
        left -= count if fits else 0
        if fits != (state.placement is not None):
            expected[state.job.name] = count if fits else 0
    assert dict(dealt(shares)) == expected
    assert shares == POLICY.allocate(seen, room, now, None)


@dataclass
class Life:
    """A job in the histories below: all numbers are sums of powers of two, none is rounded."""

    name: str
    arrives: float
    devices: int
    seconds: float
    """Run time left."""
    since: float | None = None
    served: float = 0.0
    queue: int = 0
    joined: float = 0.0
    """Arrival in the queue, as the eager rule notes it."""

    def state(self) -> JobState:
        asked = job(self.name, self.devices)
        if self.since is None:
            return waits(asked, self.arrives, self.served)
        # The policy counts devices, nobody asks where: each job has a node of its own.
        where = at(*((f"x{self.name}", 1 << i) for i in range(self.devices)))
        return running(asked, where, submitted=self.arrives, since=self.since, served=self.served)

    def give(self, now: float, runs_now: bool) -> None:
        if self.since is not None and not runs_now:
            self.served += self.devices * (now - self.since)
            self.seconds -= now - self.since
            self.since = None
        elif self.since is None and runs_now:
            self.since = now


History = list[tuple[str, float, bool]]
"""Who got (True) or lost devices, when."""


def play(jobs: list[Life], step: Callable[[list[Life], float], tuple[set[str], float]]) -> History:
    """Ask at arrivals, ends and when the step wants: it says who is to run, and when to ask again."""
    history: History = []
    live: list[Life] = []
    again, coming = inf, sorted(jobs, key=lambda life: life.arrives)
    while coming or live:
        ends = [life.since + life.seconds for life in live if life.since is not None]
        now = min([*ends, again, *(life.arrives for life in coming)])
        live = [e for e in live if e.since is None or e.since + e.seconds > now]
        live += [life for life in coming if life.arrives <= now]
        coming = [life for life in coming if life.arrives > now]
        chosen, again = step(live, now)
        for life in live:
            if (life.name in chosen) != (life.since is not None):
                history.append((life.name, now, life.name in chosen))
                life.give(now, life.name in chosen)
    return history


def eager(live: list[Life], now: float) -> tuple[set[str], float]:
    """The rule of the published evaluation, looking at every single crossing."""
    for life in live:
        held = life.devices * (now - life.since) if life.since is not None else 0.0
        if life.queue == 0 and life.served + held >= 80.0:
            life.queue, life.joined = 1, now
    order = sorted(
        live, key=lambda life: (life.queue, life.joined or life.arrives, life.arrives, life.name)
    )
    left, chosen = 12, set()
    for life in order:
        if life.devices <= left:
            left -= life.devices
            chosen.add(life.name)
    up = [life for life in live if life.name in chosen and life.queue == 0]
    crossings = [(life.since or now) + (80.0 - life.served) / life.devices for life in up]
    return chosen, min(crossings, default=inf)


class Asked:
    """The policy, with its memory carried from time to time."""

    def __init__(self) -> None:
        self.memory: object = None

    def __call__(self, live: list[Life], now: float) -> tuple[set[str], float]:
        states = {number(life.name): life.state() for life in live}
        free = 12 - sum(life.devices for life in live if life.since is not None)
        (node,) = cluster(1, node_set(devices=12)).nodes
        there = replace(TWELVE, nodes=(replace(node, free=(1 << free) - 1),))
        seen = View(0, there, single_pool({"A100": 12}), states)
        room = Entitlements({("default", "A100"): 12}, {"A100": 12})
        shares = POLICY.allocate(seen, room, now, self.memory)
        self.memory = shares.memory
        chosen = {life.name for life in live if life.since is not None}
        for each in shares.allocations:
            (chosen.add if each.most else chosen.discard)(name_of(each.job))
        return chosen, shares.again


lives = st.lists(
    st.tuples(st.integers(1, 60), st.sampled_from([1, 2, 4, 8]), st.integers(1, 80)),
    min_size=1,
    max_size=9,
)


@given(lives)
def test_whole_histories_are_those_of_the_rule_applied_at_every_crossing(
    drawn: list[tuple[int, int, int]],
) -> None:
    def cast() -> list[Life]:
        return [Life(f"j{i}", float(a), d, float(s)) for i, (a, d, s) in enumerate(drawn)]

    assert play(cast(), Asked()) == play(cast(), eager)
