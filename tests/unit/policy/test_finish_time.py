"""Finish-time fairness: the least largest delay by sharing."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Need
from muster.model.view import JobState, Phase
from muster.policy.base import exactly
from muster.policy.published.finish_time import LEASE, FinishTime
from tests.builders import job, running, view
from tests.builders import placement as at
from tests.numbers import name_of, number
from tests.unit.policy.deal import ask, devices, left, on, pools, told, types, workers

LINEAR = tuple(float(n) for n in range(1, 9))


def waiting(name: str, since: float, most: int = 8) -> JobState:
    return JobState(job(name, most=most), Phase.WAITING, submitted=since)


def test_alike_jobs_share_alike_whatever_their_length() -> None:
    # Two each alone: 50 and 5 s, so rho is 2 with one device and 1 with two, for both.
    seen = told(
        view(devices(4), [waiting("a", 0), waiting("b", 0)]), a=left(100, *LINEAR), b=left(10, *LINEAR)
    )
    assert workers(FinishTime(), seen) == {"a": 2, "b": 2}


def test_who_has_waited_gets_more() -> None:
    # Alone, on two devices, b would take 5 s, and has waited 10: rho = (10 + 10 / n) / 5 = 4, 3, 2.7.
    # a has just come: (100 / n) / 50 = 2, 1. b's is the larger as long as there is anything to give.
    seen = view(devices(4), [waiting("b", 0), waiting("a", 10)])
    seen = told(seen, a=left(100, *LINEAR), b=left(10, *LINEAR))
    assert workers(FinishTime(), seen, now=10.0) == {"a": 1, "b": 3}


def test_what_a_job_has_had_counts_as_time_alone() -> None:
    # As above, but b has been running on one device: 10 device-s, 5 s alone. rho = (10 + 10 / n) / 10
    # = 2, 1.5, 1.33. Both begin at 2; b, the older, gets the third device, a (2 against 1.5) the
    # fourth.
    held = running(job("b", most=8), at(("n0", 1)), since=0.0)
    seen = view(devices(4), [held, waiting("a", 10)])
    seen = told(seen, a=left(100, *LINEAR), b=left(10, *LINEAR))
    assert workers(FinishTime(), seen, now=10.0) == {"a": 2, "b": 2}


def test_a_job_that_more_would_not_help_leaves_it_to_others() -> None:
    # a's part is 4 devices of which it can use one: alone it is no faster, rho 1 throughout; so is
    # b's with 4, and what a does not use goes to b all the same.
    seen = told(
        view(devices(8), [waiting("a", 0), waiting("b", 0)]), a=left(10, 1.0), b=left(10, *LINEAR)
    )
    assert workers(FinishTime(), seen) == {"a": 1, "b": 7}


def test_a_step_that_does_not_help_is_taken_with_the_next_that_does() -> None:
    # Two are no faster than one, three are. Alone, on two: 10 s, so rho is 1 with one or two devices,
    # 2/3 with three. b is at 2, 1, 2/3: it gets the third device; then both are at 1, and a, the
    # older, would need two.
    seen = view(devices(5), [waiting("a", 0), waiting("b", 0)])
    seen = told(seen, a=left(10, 1, 1, 1.5, 1.5), b=left(10, *LINEAR))
    assert workers(FinishTime(), seen) == {"a": 3, "b": 2}


def test_where_not_everybody_has_room_the_most_delayed_come_first() -> None:
    # Alone, on 2/3 of a device: 15 s each. With its gang now: (waited + 10) / 15.
    states = [waiting("old", 0), waiting("new", 100), waiting("middle", 50)]
    seen = told(
        view(devices(2), states), **{name: left(10, *LINEAR) for name in ("old", "new", "middle")}
    )
    assert workers(FinishTime(), seen, now=100.0) == {"old": 1, "middle": 1, "new": 0}


def test_shares_stay_until_the_lease_ends() -> None:
    a, b = left(1000, *LINEAR), left(1000, *LINEAR)
    first = ask(FinishTime(), told(view(devices(4), [waiting("a", 0)]), a=a))
    assert first.again == LEASE
    held = running(job("a", most=8), at(*(("n0", 1 << n) for n in range(4))), since=0.0)
    seen = told(view(devices(4), [held, waiting("b", 100)]), a=a, b=b)
    second = ask(FinishTime(), seen, 100.0, first.memory)
    assert [each.most for each in second.allocations] == [4, 0]
    assert second.again == LEASE
    third = ask(FinishTime(), seen, LEASE, second.memory)
    assert min(each.most for each in third.allocations) > 0
    assert third.again == 2 * LEASE


def test_free_devices_are_dealt_at_once_to_who_waits() -> None:
    a = left(1000, 1, 1.5)
    first = ask(FinishTime(), told(view(devices(4), [waiting("a", 0, most=2)]), a=a))
    held = running(job("a", most=2), at(("n0", 1), ("n0", 2)), since=0.0)
    seen = told(view(devices(4), [held, waiting("b", 100)]), a=a, b=left(1000, *LINEAR))
    assert workers(FinishTime(), seen, 100.0, first.memory) == {"a": 2, "b": 2}


def test_a_job_that_was_starting_when_the_lease_began_keeps_what_it_gets() -> None:
    coming = replace(running(job("a", most=2), at(("n0", 1), ("n0", 2))), phase=Phase.STARTING)
    seen = told(view(devices(2), [coming, waiting("b", 0)]), a=left(10, 1, 2), b=left(10, 1, 2))
    first = ask(FinishTime(), seen)
    assert [(name_of(each.job), each.most) for each in first.allocations] == [("b", 0)]
    there = running(job("a", most=2), at(("n0", 1), ("n0", 2)), since=0.0)
    seen = told(view(devices(2), [there, waiting("b", 0)]), a=left(10, 1, 2), b=left(10, 1, 2))
    assert workers(FinishTime(), seen, 10.0, first.memory) == {"a": 2, "b": 0}


def test_pools_limits_hold() -> None:
    jobs = [job("a", most=8, pool="p"), job("b", most=8, pool="q")]
    seen = view(devices(8), jobs, pools(p=2, q=8))
    seen = told(seen, a=left(100, *LINEAR), b=left(10, *LINEAR))
    assert workers(FinishTime(), seen) == {"a": 2, "b": 6}


def test_what_cannot_be_changed_is_left_alone_and_counted() -> None:
    fixed = running(job("fixed", most=8, preemptible=False), at(("n0", 0b1)))
    moving = running(job("moving", most=8), at(("n0", 0b10)), phase=Phase.RESIZING)
    moving = replace(moving, target=at(("n0", 0b10), ("n0", 0b100)))
    seen = view(devices(8), [fixed, moving, job("free", most=8)])
    assert workers(FinishTime(), told(seen, free=left(100, *LINEAR))) == {"free": 5}


def test_jobs_of_which_nothing_is_known_share_alike() -> None:
    seen = view(devices(4), [waiting("a", 0), waiting("b", 0)])
    assert workers(FinishTime(), seen) == {"a": 2, "b": 2}


def test_a_job_without_devices_has_its_gang() -> None:
    shares = ask(FinishTime(), view(devices(1), [job("cores", 3, need=Need(millicores=100))]))
    assert shares.allocations == (exactly(number("cores"), 3),)
    assert shares.again == float("inf")


def test_each_job_has_one_type_and_all_types_are_used() -> None:
    # Alone each has two devices, half of the time of each type: a goes (4 + 2) / 2 = 3, b (4 + 3) / 2
    # = 3.5. With one device of A: a (10 / 2) / (10 / 3) = 1.5, b (20 / 2) / (20 / 3.5) = 1.75. So b
    # chooses first: A. Sharing A, a would go 2, as fast as on both of B, which nobody has.
    seen = view(types(A=2, B=2), [job("a", most=2), job("b", most=2)])
    said = ask(FinishTime(), told(seen, a=on(10, A=2, B=1), b=on(20, A=2, B=1.5))).allocations
    assert {name_of(each.job): (each.most, each.device_type) for each in said} == {
        "a": (2, "B"),
        "b": (2, "A"),
    }


GAINS = st.lists(st.integers(0, 4), min_size=5, max_size=5)
JOBS = st.lists(st.tuples(st.integers(1, 100), st.integers(0, 50), GAINS), min_size=1, max_size=3)


@given(JOBS)
def test_no_other_deal_has_a_smaller_largest_delay(jobs: list[tuple[int, int, list[int]]]) -> None:
    """Every deal of six devices is tried; speeds never fall with more devices."""
    now, count = 50.0, 6
    names = [f"j{n}" for n in range(len(jobs))]
    tables = [[float(sum(gains[:k]) + 1) for k in range(6)] for _, _, gains in jobs]
    states = [
        waiting(name, now - waited, most=6) for name, (_, waited, _) in zip(names, jobs, strict=True)
    ]
    outlooks = {
        name: left(float(work), *table)
        for name, (work, _, _), table in zip(names, jobs, tables, strict=True)
    }

    def largest(deal: tuple[int, ...]) -> float:
        # The part of each is a whole number of devices: 6, 3 or 2.
        return max(
            (waited + work / table[n - 1]) / (work / table[count // len(jobs) - 1])
            for n, (work, waited, _), table in zip(deal, jobs, tables, strict=True)
        )

    deals = [deal for deal in product(range(1, 7), repeat=len(jobs)) if sum(deal) <= count]
    said = workers(FinishTime(), told(view(devices(count), states), **outlooks), now)
    assert largest(tuple(said[name] for name in names)) == pytest.approx(min(map(largest, deals)))
