"""Urgency in columns is that of each job by itself."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from muster.model.view import View
from muster.policy.market.bids import NOTHING, Bid, BidMemory, Dues, bid_on
from muster.policy.market.prices import upto
from muster.policy.market.urgency import INSTANT, LATEST, Urgency
from tests.prop.test_muster_policy import views

HOLDS, DEVICES = 600.0, {"A100": 8}


def bids_of(view: View, now: float) -> list[Bid]:
    memory = BidMemory(DEVICES)
    return [bid_on(view, state, ("A100",), now, memory, {}) for state in view.jobs.values()]


def time(bid: Bid) -> float:
    """The s left at its best, over its weight."""
    best = 0.0
    for each, curve in bid.curves.items():
        count = upto(curve.devices, DEVICES[each])
        best = max(best, curve.peaks[count - 1]) if count else best
    return (bid.starts + bid.left / best) / bid.weight if best > NOTHING else 0.0


def lateness(bid: Bid, crowd: float, crowded: float, now: float) -> float:
    """The s by which a job would end too late, from the formula."""
    needs = bid.starts + bid.outlook.left / bid.gang_rate if bid.gang_rate > NOTHING else inf
    if needs == inf:
        return -1.0
    since, state = bid.state.since, bid.state
    begun = since is not None and now < since + HOLDS
    had = (state.served if begun else state.attained(now)) / bid.asked
    waited = now - state.submitted - HOLDS
    life = waited + needs if waited > 0.0 else needs
    mean = (crowded + crowd / bid.weight * needs) / max(INSTANT, life)
    return life - LATEST * (max(INSTANT, had + needs) * max(1.0, mean))


@given(views(), st.floats(1000.0, 1e5), st.floats(0.0, 2000.0))
def test_columns_say_what_each_job_does(view: View, now: float, at: float) -> None:
    bids = bids_of(view, now)
    dues = Dues(at, {bid.number: 100.0 * bid.number for bid in bids if bid.number % 2})
    found = Urgency(bids, DEVICES, dues, now)
    assert found.times.tolist() == [time(bid) for bid in bids]
    order = sorted(bids, key=lambda bid: (-time(bid), -bid.state.submitted, bid.number))
    assert [bids[row] for row in found.ends_last()] == order
    crowd = sum(bid.weight * bid.asked for bid in bids) / 8
    late = {bid.number: lateness(bid, crowd, found.crowded[bid.number], now) for bid in bids}
    assert found.late(HOLDS, 0.5) == {number: s for number, s in late.items() if s > 0.0}
