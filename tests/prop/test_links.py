"""Whatever links carried: an answer that is a number, near the truth where observations agree."""

from math import isfinite

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.topology import Link
from muster.perf.history.links import KEPT, Carried, LinkEstimate, LinkHistory, learn
from muster.perf.wires import LinkClass, Wire

EVERY = settings(max_examples=80, deadline=None, derandomize=True, database=None)

CLASSES = [LinkClass(Wire.NIC, "a"), LinkClass(Wire.LANE, "a"), LinkClass(Wire.RACK)]
RATINGS = st.builds(Link, st.floats(1e8, 1e11), st.floats(0.0, 1e-3))
CARRIED = st.builds(
    Carried,
    st.sampled_from(CLASSES),
    st.floats(0.0, 1e10),
    st.floats(1e-7, 1e3),
    st.floats(0.0, 1e6),
)


def known(rated: Link, observed: list[Carried]) -> LinkEstimate:
    found = learn(rated, observed)
    assert isinstance(found, LinkEstimate)
    return found


@EVERY
@given(RATINGS, st.lists(CARRIED, max_size=30))
def test_whatever_was_observed_the_answer_is_a_number_with_an_interval(
    rated: Link, observed: list[Carried]
) -> None:
    found = known(rated, observed)
    assert 0 < found.bandwidth.low <= found.bandwidth.mean <= found.bandwidth.high
    assert 0 <= found.latency.low <= found.latency.mean <= found.latency.high
    assert isfinite(found.bandwidth.high)
    assert isfinite(found.latency.high)
    assert found.spread >= 1


@EVERY
@given(RATINGS, st.floats(0.2, 2.0), st.integers(60, 150))
def test_observations_that_agree_are_believed(rated: Link, ratio: float, count: int) -> None:
    truth = Link(rated.bandwidth * ratio, rated.latency)
    times = [0.001 * 4 ** (i % 5) for i in range(count)]  # from 1 to 256 ms for the bytes alone
    observed = [
        Carried(CLASSES[0], t * truth.bandwidth, truth.latency + t, float(i))
        for i, t in enumerate(times)
    ]
    found = known(rated, observed)
    assert found.bandwidth.mean == pytest.approx(truth.bandwidth, rel=0.05)


@EVERY
@given(RATINGS, st.lists(CARRIED, min_size=1, max_size=15))
def test_the_order_in_which_observations_are_told_does_not_matter(
    rated: Link, observed: list[Carried]
) -> None:
    mixed = sorted(observed, key=lambda one: (one.bytes, one.seconds, one.at))
    one, other = known(rated, observed), known(rated, mixed)
    assert one.bandwidth.mean == pytest.approx(other.bandwidth.mean, rel=1e-3)


@EVERY
@given(st.lists(st.lists(CARRIED, max_size=20), max_size=8))
def test_history_holds_the_latest_of_each_class_and_no_more(parts: list[list[Carried]]) -> None:
    history = LinkHistory()
    parts = [part * 20 for part in parts]
    for part in parts:
        history = history.and_also(part)
    for link in CLASSES:
        kept = [one.at for one in history.of(link)]
        told = sorted(one.at for part in parts for one in part if one.link == link)
        assert kept == told[-KEPT:]
