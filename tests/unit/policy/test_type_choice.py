"""Types chosen together, on cases worked by hand."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.policy.market.deal import Offer, deal
from muster.policy.market.type_choice import choose_types
from muster.policy.muster import Muster
from tests import builders
from tests.numbers import name_of
from tests.unit.policy.deal import ask, on, told, types


def one(**values: float) -> dict[str, Offer]:
    """What one device of each type is worth."""
    return {each: Offer((0, 1), (0.0, value)) for each, value in values.items()}


def test_the_page_on_policies_works_it_out_by_hand() -> None:
    jobs = [builders.job(name, gang=1, pause=0.0) for name in ("a", "b")]
    seen = told(
        builders.view(types(T4=1, A100=1), jobs),
        a=on(8_000.0, T4=1.0, A100=8.0),
        b=on(2_000.0, T4=1.0, A100=1.25),
    )
    dealt = {name_of(each.job): each.device_type for each in ask(Muster(), seen).allocations}
    assert dealt == {"a": "A100", "b": "T4"}


def test_a_job_is_no_cost_to_itself() -> None:
    assert choose_types([one(slow=1.0, fast=8.0)], {"slow": 1, "fast": 1}, ["fast"]) == ["fast"]


def test_a_job_moves_where_devices_are_idle() -> None:
    assert choose_types([one(slow=1.0, fast=8.0)], {"slow": 1, "fast": 1}, ["slow"]) == ["fast"]


def test_who_gains_more_by_it_gets_the_faster_type() -> None:
    offers = [one(slow=4.0, fast=5.0), one(slow=1.0, fast=3.0)]
    assert choose_types(offers, {"slow": 1, "fast": 1}, ["fast", "slow"]) == ["slow", "fast"]


def test_a_gain_that_is_none_moves_nobody() -> None:
    assert choose_types([one(a=1.0, b=1.0)], {"a": 1, "b": 1}, ["b"]) == ["b"]


def test_a_job_that_runs_nowhere_has_no_type() -> None:
    assert choose_types([{}], {"a": 1}, [""]) == [""]


worths = st.lists(st.floats(0.1, 10.0), min_size=2, max_size=2)


@given(st.lists(worths, min_size=1, max_size=5), st.integers(1, 3), st.integers(1, 3))
def test_no_other_choice_is_worth_much_more(jobs: list[list[float]], a: int, b: int) -> None:
    offers = [one(a=each[0], b=each[1]) for each in jobs]
    devices = {"a": a, "b": b}

    def worth(chosen: tuple[str, ...] | list[str]) -> float:
        total = 0.0
        for each, count in devices.items():
            here = [own[each] for own, type_ in zip(offers, chosen, strict=True) if type_ == each]
            places = deal(here, count)
            total += sum(offer.values[place] for offer, place in zip(here, places, strict=True))
        return total

    best = max(worth(every) for every in product("ab", repeat=len(jobs)))
    found = worth(choose_types(offers, devices, ["a"] * len(jobs)))
    assert found >= best / 2
    assert found <= best * (1 + 1e-9)


@given(st.lists(st.permutations((1.0, 2.0, 3.0, 5.0)), min_size=1, max_size=5))
def test_the_order_of_types_does_not_matter(jobs: list[list[float]]) -> None:
    devices = {"a": 2, "b": 1, "c": 1, "d": 3}

    def worth(order: str) -> float:
        offers = [one(**{each: job["abcd".index(each)] for each in order}) for job in jobs]
        here = {each: devices[each] for each in order}
        chosen = choose_types(offers, here, [""] * len(jobs))
        return sum(
            sum(
                sorted(
                    (own[each].values[1] for own, t in zip(offers, chosen, strict=True) if t == each),
                    reverse=True,
                )[:n]
            )
            for each, n in devices.items()
        )

    assert worth("abcd") == pytest.approx(worth("dcba"), rel=0.2)
