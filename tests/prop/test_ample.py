"""Where everybody fits, the short way gives what the deal by price gives."""

from dataclasses import replace
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from muster.model.outlook import Outlook, Table
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.policy.base import Shares
from muster.policy.muster import Muster
from tests import builders
from tests.numbers import by_number

NODES, EACH = 3, 4


@st.composite
def views(draw: st.DrawFn) -> View:
    """Up to six jobs on three nodes of four devices, rigid or elastic; some of them run."""
    room = [(f"n{i}", 1 << bit) for i in range(NODES) for bit in range(EACH)]
    states: list[JobState] = []
    outlooks = {}
    for name in [f"j{i}" for i in range(draw(st.integers(0, 6)))]:
        gang = draw(st.integers(1, 4))
        pause = draw(st.sampled_from((0.0, 30.0, 700.0)))
        most = gang + draw(st.integers(0, 3))
        asked = builders.job(name, gang, most=most, pause=pause, priority=draw(st.integers(-1, 1)))
        has = draw(st.integers(gang, most))
        if len(room) >= has and draw(st.booleans()):
            places = [room.pop() for _ in range(has)]
            since = draw(st.floats(0.0, 2000.0))
            states.append(builders.running(asked, builders.placement(*places), since=since))
        else:
            states.append(JobState(asked, Phase.WAITING, submitted=draw(st.floats(0.0, 1000.0))))
        rate = st.floats(0.01, 100.0)
        here = draw(st.none() | rate) if states[-1].placement else None
        left, spread = draw(st.floats(0.0, 1e5)), draw(st.floats(0.0, 2.0))
        rates = draw(st.lists(rate, min_size=1, max_size=7))
        outlooks[name] = Outlook(left, Table(tuple(rates)), spread, here)
    cluster = builders.cluster(NODES, builders.node_set(devices=EACH))
    return replace(builders.view(cluster, states), outlooks=by_number(outlooks))


def answer(view: View, now: float, *, short: bool) -> Shares:
    entitled = Entitlements({("default", "A100"): NODES * EACH}, {"A100": NODES * EACH})
    if short:
        return Muster().allocate(view, entitled, now, None)
    with patch("muster.policy.muster.may_fit", return_value=False):
        return Muster().allocate(view, entitled, now, None)


@given(views(), st.floats(2000.0, 1e5))
def test_the_short_way_leads_to_the_same_shares(view: View, now: float) -> None:
    assert answer(view, now, short=True) == answer(view, now, short=False)


@given(views(), st.floats(2000.0, 1e5))
def test_what_keeps_what_it_has_is_found_without_an_offer(view: View, now: float) -> None:
    with patch("muster.policy.market.ample._stays", return_value=False):
        offered = answer(view, now, short=True)
    assert answer(view, now, short=True).allocations == offered.allocations
