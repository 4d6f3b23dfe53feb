"""Prices that follow by difference are those of a fresh market, and of the formula as it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.policy.market.price_list import Entrant, PriceList, price_all
from muster.policy.market.prices import Array, gains


@dataclass(frozen=True, eq=False)
class Ladder:
    ladder: Array


def by_the_formula(
    entrants: Sequence[Entrant], devices: Mapping[str, int]
) -> list[tuple[float, dict[str, float]]]:
    """The weight owed so far, and what a job would ask on each type, both as the source writes them:
    c_i = min over k of (w_1 + ... + w_i - G_{i-1}(n - k)) / s_i(k)."""
    owed, found = 0.0, []
    added: dict[str, list[float]] = {each: [] for each in devices}
    for curves, weight in entrants:
        owed += weight
        most = {each: sum(sorted(added[each])[::-1][:n]) for each, n in devices.items()}
        asked = {}
        for each, curve in curves.items():
            steps = curve.ladder.tolist()[: devices.get(each, 0)]
            others = sum(worth for kind, worth in most.items() if kind != each)
            prices = [
                (owed - others - sum(sorted(added[each])[::-1][: devices[each] - k])) / sum(steps[:k])
                for k in range(1, len(steps) + 1)
            ]
            if prices:
                asked[each] = min(prices)
        found.append((owed, asked))
        if asked:
            best = min(asked, key=lambda each: asked[each])
            added[best] += [asked[best] * step for step in curves[best].ladder.tolist()]
        else:
            owed -= weight
    return found


ladders = st.lists(st.floats(0.01, 10.0), min_size=1, max_size=6).map(
    lambda steps: Ladder(gains(range(1, len(steps) + 1), np.cumsum(steps).tolist()))
)
jobs = st.tuples(
    st.dictionaries(st.sampled_from("abc"), ladders, max_size=2), st.sampled_from((0.5, 1.0, 4.0))
)
counts = st.fixed_dictionaries({"a": st.integers(0, 12), "b": st.integers(0, 6)})


@given(st.lists(jobs, max_size=12), counts)
def test_a_price_is_what_the_formula_says(entrants: list[Entrant], devices: dict[str, int]) -> None:
    listed = price_all(entrants, devices, None)
    for (price, where), (_, asked) in zip(listed.found, by_the_formula(entrants, devices), strict=True):
        if not asked:
            assert (price, where) == (0.0, "")
            continue
        assert price == pytest.approx(min(asked.values(), default=inf), rel=1e-6)
        if asked[where] > min(asked.values()) * (1 + 1e-6):
            raise AssertionError(f"priced on {where}, cheaper elsewhere: {asked}")


@st.composite
def histories(draw: st.DrawFn) -> list[list[Entrant]]:
    """Jobs that come, go and change their places between deals."""
    known: list[Entrant] = list(draw(st.lists(jobs, min_size=1, max_size=30)))
    deals = [known]
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(known)))
        known = [*known[:at], *draw(st.lists(jobs, max_size=2)), *known[at + draw(st.integers(0, 2)) :]]
        if len(known) > 1 and draw(st.booleans()):
            i = draw(st.integers(0, len(known) - 2))
            known = [*known[:i], known[i + 1], known[i], *known[i + 2 :]]
        deals.append(known)
    return deals


@given(histories(), counts)
def test_prices_by_difference_are_those_from_scratch(
    deals: list[list[Entrant]], devices: dict[str, int]
) -> None:
    last: PriceList | None = None
    for entrants in deals:
        last = price_all(entrants, devices, last)
        assert list(last.found) == list(price_all(entrants, devices, None).found)


def test_other_devices_are_other_prices() -> None:
    entrants: list[Entrant] = [({"a": Ladder(np.ones(4))}, 1.0)] * 3
    last = price_all(entrants, {"a": 4}, None)
    more = price_all(entrants, {"a": 8}, last)
    assert list(more.found) == list(price_all(entrants, {"a": 8}, None).found) != list(last.found)
