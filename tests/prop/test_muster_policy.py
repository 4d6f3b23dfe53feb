"""Muster's own policy on random views: never more than there is, and always the same."""

from collections import Counter
from dataclasses import replace
from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements, Pool, PoolTree, Quota
from muster.model.view import JobState, Phase, View
from muster.policy.market.deal import Offer, _by_slope, deal
from muster.policy.muster import Muster
from tests import builders
from tests.numbers import by_number

POOLS = ("p", "q")
speeds = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=8).map(lambda each: Table(tuple(each)))
beliefs = st.builds(
    Outlook,
    left=st.floats(0.0, 1e6),
    speed=speeds,
    spread=st.floats(0.0, 3.0),
    here=st.none() | st.floats(0.0, 100.0),
)


@st.composite
def states(draw: st.DrawFn, name: str, room: list[tuple[str, int]]) -> JobState:
    """A job that waits, or runs on some of the devices that are left."""
    gang = draw(st.integers(1, 4))
    job = builders.job(
        name,
        gang=gang,
        most=gang + draw(st.integers(0, 4)),
        pool=draw(st.sampled_from(POOLS)),
        priority=draw(st.integers(-2, 2)),
        preemptible=draw(st.booleans()),
        pause=draw(st.sampled_from((0.0, 1.0, 30.0))),
    )
    if len(room) < gang or draw(st.booleans()):
        return JobState(job, Phase.WAITING, submitted=draw(st.floats(0.0, 1000.0)))
    places = [room.pop() for _ in range(draw(st.integers(gang, min(len(room), job.workers.most))))]
    since = draw(st.floats(0.0, 1000.0))
    return builders.running(job, builders.placement(*places), since=since)


@st.composite
def views(draw: st.DrawFn) -> View:
    """Up to six jobs of two pools on two nodes of four devices."""
    cluster = builders.cluster(2, builders.node_set(devices=4))
    room = draw(st.permutations([(f"n{i}", 1 << bit) for i in range(2) for bit in range(4)]))
    names = [f"j{i}" for i in range(draw(st.integers(0, 6)))]
    jobs = [draw(states(name, room)) for name in names]
    pools = PoolTree({name: Pool(name, quotas={"A100": Quota(reservation=4)}) for name in POOLS})
    outlooks = {name: draw(beliefs) for name in names if draw(st.integers(0, 4))}
    return replace(builders.view(cluster, jobs, pools), outlooks=by_number(outlooks))


@given(views(), st.integers(0, 8), st.floats(1000.0, 1e5))
def test_nobody_gets_more_than_there_is(view: View, first: int, now: float) -> None:
    entitled = Entitlements({("p", "A100"): first, ("q", "A100"): 8 - first}, {"A100": 8})
    shares = Muster().allocate(view, entitled, now, None)
    fixed = {s.number for s in view.jobs.values() if s.placement is not None and not s.job.preemptible}
    given_out: Counter[str] = Counter()
    for each in shares.allocations:
        job = view.jobs[each.job].job
        assert each.job not in fixed
        assert each.least == each.most
        assert each.most == 0 or job.workers.gang <= each.most <= job.workers.most
        given_out[job.pool] += each.most
    kept: Counter[str] = Counter()
    for name in fixed:
        placement = view.jobs[name].placement
        assert placement is not None
        kept[view.jobs[name].job.pool] += placement.devices
    for pool in POOLS:
        # What is not preemptible may have the pool's reservation, whatever it is entitled to.
        assert given_out[pool] <= max(0, max(4, entitled.of(pool, "A100")) - kept[pool])
    assert given_out.total() <= max(0, 8 - kept.total())
    assert {each.job for each in shares.allocations} == set(view.jobs) - fixed
    assert shares.again > now


@given(views(), st.floats(1000.0, 1e5))
def test_the_same_view_gives_the_same_shares(view: View, now: float) -> None:
    entitled = Entitlements({(pool, "A100"): 4 for pool in POOLS}, {"A100": 8})
    shares = Muster().allocate(view, entitled, now, None)
    assert Muster().allocate(view, entitled, now, None) == shares
    assert Muster().allocate(view, entitled, now, shares.memory) == shares


offers = st.lists(st.floats(-1.0, 10.0), max_size=4).map(
    lambda values: Offer(tuple(range(len(values) + 1)), (0.0, *values))
)


@given(st.lists(offers, max_size=4), st.integers(0, 8))
def test_the_deal_is_the_best_of_all(found: list[Offer], devices: int) -> None:
    def worth(places: tuple[int, ...]) -> float:
        return sum(offer.values[place] for offer, place in zip(found, places, strict=True))

    every = product(*(range(len(offer.counts)) for offer in found))
    best = max(worth(places) for places in every if sum(places) <= devices)
    dealt = tuple(deal(found, devices))
    assert sum(dealt) <= devices
    assert abs(worth(dealt) - best) < 1e-9


@given(st.lists(offers, max_size=6), st.integers(0, 12))
def test_steepest_first_stays_within_the_devices(found: list[Offer], devices: int) -> None:
    chosen, left, doubt = _by_slope(found, devices)
    assert sum(chosen) + left == devices
    assert left >= 0
    assert len(doubt) == len(found)
