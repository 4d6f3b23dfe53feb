"""Offers of many jobs at once are those of each by itself."""

from hypothesis import given
from hypothesis import strategies as st

from muster.model.view import View
from muster.policy.market.bids import Bid, BidMemory, bid_on
from muster.policy.market.offers import offers_of
from tests.prop.test_muster_policy import views

HORIZON = 600.0


def bids_of(view: View, now: float, prices: list[float]) -> list[Bid]:
    memory = BidMemory({"A100": 8})
    found = []
    for state, price in zip(view.jobs.values(), prices, strict=False):
        bid = bid_on(view, state, ("A100",), now, memory, {})
        bid.remember((("A100", 2, 0.5, now),), now - HORIZON, now)
        bid.price, bid.turn = price, None if price > 5.0 else price > 1.0
        if "A100" in bid.curves:
            found.append(bid)
    return found


@given(
    views(),
    st.floats(1000.0, 2000.0),
    st.lists(st.floats(1e-6, 10.0), min_size=6, max_size=6),
    st.booleans(),
)
def test_together_as_alone(view: View, now: float, prices: list[float], wanted: bool) -> None:
    bids = bids_of(view, now, prices)
    alone = [bid.offer("A100", HORIZON, now, wanted=wanted) for bid in bids]
    assert offers_of(bids, "A100", HORIZON, now, wanted=wanted) == alone
