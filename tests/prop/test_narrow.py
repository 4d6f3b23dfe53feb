"""Narrowing down a deal takes nothing away from its worth, and nothing that could be part of it."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.policy.market.deal import Offer, deal
from muster.policy.market.narrow import narrow

steps = st.lists(st.tuples(st.integers(1, 3), st.floats(-1.0, 5.0)), min_size=1, max_size=4)


@st.composite
def offers(draw: st.DrawFn) -> Offer:
    """Counts of one to four sizes, with values that need not rise or be concave."""
    counts, values = [0], [0.0]
    for more, value in draw(steps):
        counts.append(counts[-1] + more)
        values.append(values[-1] + value)
    return Offer(tuple(counts), tuple(values))


def plain(found: list[Offer], devices: int) -> float:
    """The most that any deal is worth: all of them are tried."""
    every = product(*(range(len(each.counts)) for each in found))
    return max(
        sum(each.values[place] for each, place in zip(found, places, strict=True))
        for places in every
        if sum(each.counts[place] for each, place in zip(found, places, strict=True)) <= devices
    )


@given(st.lists(offers(), min_size=5, max_size=6), st.integers(0, 20))
def test_a_deal_is_worth_the_most_of_all(found: list[Offer], devices: int) -> None:
    places = deal(found, devices)
    assert sum(each.counts[at] for each, at in zip(found, places, strict=True)) <= devices
    worth = sum(each.values[at] for each, at in zip(found, places, strict=True))
    assert worth == pytest.approx(plain(found, devices), abs=1e-7)


@given(st.lists(offers(), min_size=1, max_size=5), st.integers(12, 30))
def test_every_choice_of_every_best_deal_is_kept(found: list[Offer], devices: int) -> None:
    kept = narrow([each.counts for each in found], [each.values for each in found], devices)
    most = plain(found, devices)
    for places in product(*(range(len(each.counts)) for each in found)):
        pairs = list(zip(found, places, strict=True))
        fits = sum(each.counts[at] for each, at in pairs) <= devices
        if fits and sum(each.values[at] for each, at in pairs) >= most:
            assert all(kept[i, at] for i, at in enumerate(places))


def test_jobs_that_clearly_get_something_or_nothing_have_one_choice_left() -> None:
    rising = [(0.0, 10.0 - i, 18.0 - 2 * i) for i in range(8)]
    kept = narrow([(0, 1, 2)] * 8, rising, 8)
    assert [row.count(True) for row in kept.tolist()].count(1) >= 4


def test_jobs_that_are_served_first_leave_the_others_as_few_choices() -> None:
    rising = [(0.0, *((20.0 + 7 * i) * k**0.7 for k in range(1, 9))) for i in range(12)]
    first = [(0.0, *(value + 1e6 for value in row[1:])) for row in rising[:2]]
    kept = narrow([tuple(range(9))] * 14, [*first, *rising], 32)
    assert kept.sum() <= 2 * 14
