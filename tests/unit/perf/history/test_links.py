"""Links learnt from what they carried."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from muster.model.topology import Link
from muster.perf.estimate import BadMeasurementError, Unknown, WhyUnknown
from muster.perf.history.links import (
    HALF_LIFE,
    KEPT,
    PRIOR_SPREAD,
    Carried,
    LinkEstimate,
    LinkHistory,
    learn,
)
from muster.perf.wires import LinkClass, Wire

CARD = LinkClass(Wire.NIC, "a")
RATED = Link(1e9, 50e-6)
SIZES = (1e3, 1e5, 1e7, 1e8)


def carried(truth: Link, count: int, *, begin: float = 0.0, every: float = 1.0) -> list[Carried]:
    """This many noiseless observations of transfers of several sizes."""
    sizes = [SIZES[i % len(SIZES)] for i in range(count)]
    return [
        Carried(CARD, size, truth.latency + size / truth.bandwidth, begin + every * i)
        for i, size in enumerate(sizes)
    ]


def learnt(observed: list[Carried], rated: Link = RATED) -> LinkEstimate:
    """What is learnt, which must be something."""
    found = learn(rated, observed)
    assert isinstance(found, LinkEstimate)
    return found


def stretched(observed: Sequence[Carried], every: int, factor: float) -> list[Carried]:
    """The same with each `every`-th this many times as slow."""
    return [
        replace(one, seconds=one.seconds * factor) if i % every == 0 else one
        for i, one in enumerate(observed)
    ]


def test_without_observations_a_link_is_as_rated() -> None:
    found = learnt([])
    assert (found.bandwidth.mean, found.latency.mean) == (1e9, 50e-6)
    assert found.spread == pytest.approx(PRIOR_SPREAD)


@pytest.mark.parametrize("truth", [RATED, Link(2e9, 100e-6), Link(0.6e9, 20e-6), Link(0.5e9, 50e-6)])
def test_latency_and_bandwidth_come_out_of_noiseless_observations(truth: Link) -> None:
    found = learnt(carried(truth, 100))
    assert found.bandwidth.mean == pytest.approx(truth.bandwidth, rel=0.02)
    assert found.latency.mean == pytest.approx(truth.latency, rel=0.05)


@pytest.mark.parametrize("slower", [3, 5, 10])
def test_a_link_far_below_its_rating_is_learnt_within_twenty_observations(slower: int) -> None:
    found = learnt(carried(Link(1e9 / slower, 50e-6), 20))
    assert found.bandwidth.mean == pytest.approx(1e9 / slower, rel=0.12)


def test_a_latency_far_above_its_rating_is_learnt() -> None:
    found = learnt(carried(Link(1e9, 500e-6), 100))
    assert found.latency.mean == pytest.approx(500e-6, rel=0.1)


def test_a_rating_without_latency_does_not_forbid_one() -> None:
    found = learnt(carried(Link(1e9, 80e-6), 100), Link(1e9, 0.0))
    assert found.latency.mean == pytest.approx(80e-6, rel=0.1)


@pytest.mark.parametrize("truth", [RATED, Link(0.6e9, 80e-6)])
def test_one_in_five_that_takes_five_times_as_long_changes_little(truth: Link) -> None:
    plain = carried(truth, 100)
    found = learnt(stretched(plain, 5, 5.0))
    assert found.bandwidth.mean == pytest.approx(truth.bandwidth, rel=0.1)
    # Plain averages would be off by (0.8 + 0.2 * 5) = 1.8.


def test_an_old_regime_fades() -> None:
    old, new = Link(1e9, 50e-6), Link(0.5e9, 50e-6)
    history = [*carried(old, 60), *carried(new, 60, begin=8 * HALF_LIFE)]
    assert learnt(history).bandwidth.mean == pytest.approx(0.5e9, rel=0.05)


def test_two_regimes_of_one_age_do_not() -> None:
    one, other = carried(Link(1e9, 50e-6), 60), carried(Link(0.5e9, 50e-6), 60)
    assert 0.55e9 < learnt([*one, *other]).bandwidth.mean < 0.95e9


def test_what_lies_behind_is_aged_by_the_latest_observation_and_not_by_the_clock() -> None:
    early, late = carried(RATED, 40), carried(RATED, 40, begin=1e9)
    assert learnt(early).bandwidth == learnt(late).bandwidth


def test_the_interval_shrinks_with_observations_and_holds_the_truth() -> None:
    found = [learnt(stretched(carried(RATED, n), 3, 1.1)) for n in (6, 24, 96)]
    spreads = [each.spread for each in found]
    assert spreads == sorted(spreads, reverse=True)
    assert spreads[-1] < spreads[0] < PRIOR_SPREAD
    for each in found:
        assert each.bandwidth.low <= each.bandwidth.mean <= each.bandwidth.high
        assert 0 <= each.latency.low <= each.latency.mean <= each.latency.high


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, float("nan"), float("inf")])
def test_a_rating_without_a_bandwidth_is_no_link(bandwidth: float) -> None:
    for observed in ([], carried(RATED, 10)):
        found = learn(Link(bandwidth, 1e-6), observed)
        assert isinstance(found, Unknown)
        assert found.why is WhyUnknown.NO_BANDWIDTH


@pytest.mark.parametrize(
    ("size", "seconds", "at"),
    [
        (-1.0, 1.0, 0.0),
        (float("nan"), 1.0, 0.0),
        (1e6, -1.0, 0.0),
        (1e6, 0.0, 0.0),
        (1e6, float("nan"), 0.0),
        (1e6, float("inf"), 0.0),
        (1e6, 1.0, float("nan")),
    ],
)
def test_an_observation_that_cannot_be_is_refused(size: float, seconds: float, at: float) -> None:
    with pytest.raises(BadMeasurementError):
        Carried(CARD, size, seconds, at)


def test_of_each_class_only_the_latest_are_kept() -> None:
    lane = LinkClass(Wire.LANE, "a")
    lanes = [replace(one, link=lane) for one in carried(RATED, 3)]
    history = LinkHistory().and_also([*carried(RATED, KEPT + 50), *lanes])
    assert [one.at for one in history.of(CARD)] == [float(i) for i in range(50, KEPT + 50)]
    assert history.of(lane) == lanes
    assert len(history.and_also(carried(RATED, 10, begin=1e6)).observed) == KEPT + 3


def test_observations_that_come_late_are_put_in_their_place() -> None:
    history = LinkHistory().and_also(carried(RATED, 2, begin=100)).and_also(carried(RATED, 1))
    assert [one.at for one in history.observed] == [0.0, 100.0, 101.0]


def test_nonsense_transfers_of_no_bytes_still_give_an_answer() -> None:
    found = learnt([Carried(CARD, 0.0, 1e-4, float(i)) for i in range(10)])
    assert found.latency.mean == pytest.approx(1e-4, rel=0.1)
    assert found.bandwidth.mean == pytest.approx(1e9, rel=0.01)
