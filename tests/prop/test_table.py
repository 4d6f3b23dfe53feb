"""A deal found at a price is the one that dealing exactly finds."""

from math import inf
from random import Random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from muster.policy.market.deal import CORE_DEVICES, CORE_JOBS, Offer, deal
from muster.policy.market.table import OfferTable
from tests.prop.test_narrow import offers


def table_of(found: list[Offer], price: float = 0.0) -> OfferTable:
    """The offers as a table, with a column that none of them has."""
    width = 2 + max((len(each.counts) for each in found), default=0)
    counts, values = np.zeros((len(found), width)), np.full((len(found), width), -inf)
    for row, offer in enumerate(found):
        counts[row, : len(offer.counts)] = offer.counts
        values[row, : len(offer.counts)] = offer.values
    return OfferTable([each.counts for each in found], counts, values, [0] * len(found), price)


def elastic(random: Random, jobs: int) -> list[Offer]:
    """Jobs of one to 16 workers that are ever less worth, and some that are served first."""
    found = []
    for _ in range(jobs):
        gang, each = random.choice((1, 1, 2, 4)), random.uniform(0.1, 3.0)
        power = random.uniform(0.4, 0.95)
        counts = (0, *range(gang, gang + random.randint(1, 12)))
        first = 1e5 if random.random() < 0.05 else 0.0
        values = [first + each * k**power for k in counts[1:]]
        found.append(Offer(counts, (0.0, *values)))
    return found


@given(st.lists(offers(), max_size=7), st.integers(0, 30), st.floats(0.0, 5.0))
def test_the_deal_is_the_same_as_without_a_price(
    found: list[Offer], devices: int, price: float
) -> None:
    assert table_of(found, price).deal(devices) == deal(found, devices)


@given(st.integers(0, 10**6), st.integers(0, 2 * CORE_JOBS), st.integers(0, 4 * CORE_DEVICES))
def test_so_is_that_of_many_jobs(seed: int, jobs: int, devices: int) -> None:
    found = elastic(Random(seed), jobs)
    table = table_of(found)
    assert table.deal(devices) == deal(found, devices)
    assert table.deal(devices + 1) == deal(found, devices + 1)  # begins at the price of the last


def test_most_deals_of_many_jobs_are_found_by_their_price() -> None:
    found = [elastic(Random(seed), 80) for seed in range(20)]
    settled = [table_of(each)._by_price(400) is not None for each in found]
    assert settled.count(True) > 10


@given(st.lists(offers(), min_size=1, max_size=5), st.integers(0, 12), st.integers(0, 12))
def test_counts_that_are_cut_are_not_dealt(found: list[Offer], most: int, devices: int) -> None:
    table = table_of(found)
    table.cut(0, most)
    kept = [count for count in found[0].counts if count <= most]
    first = Offer(tuple(kept), found[0].values[: len(kept)])
    assert table.offer(0) == first
    assert table.deal(devices) == deal([first, *found[1:]], devices)


def test_what_a_job_has_is_not_compared_with_once_it_is_cut() -> None:
    table = table_of([Offer((0, 1, 2), (0.0, 2.0, 3.0))])
    table.held[0] = 2
    table.cut(0, 1)
    assert table.held == [0]
    assert table.gains([1]) == [(0, 2.0)]
