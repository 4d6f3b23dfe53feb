"""Max-min fairness: fractions of time by a linear programme, dealt in rounds."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.model.job import Need
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View
from muster.policy.base import exactly
from muster.policy.published.max_min import ROUND, MaxMin, Turns
from tests.builders import job, running, view
from tests.builders import placement as at
from tests.numbers import name_of, number
from tests.unit.policy.deal import ask, devices, everything, left, on, pools, told, types, workers

ALIKE = left(1e6, 1.0)


def fractions(seen: View, policy: MaxMin | None = None) -> Mapping[tuple[str, str], float]:
    """The fractions of time that the policy decides on."""
    memory = ask(policy or MaxMin(), seen).memory
    assert isinstance(memory, Turns)
    return {(name_of(job), kind): x for (job, kind), x in memory.fractions.items() if x > 1e-5}


def about(expected: Mapping[tuple[str, str], float]) -> object:
    """Within what holding a level costs."""
    return pytest.approx(expected, abs=1e-4)


def test_opposite_jobs_each_have_the_type_that_suits_them() -> None:
    # Equal shares give both (3 + 1) / 2 = 2; each on its own type goes 3.
    seen = told(view(types(A=1, B=1), [job("a"), job("b")]), a=on(A=3, B=1), b=on(A=1, B=3))
    assert fractions(seen) == about({("a", "A"): 1, ("b", "B"): 1})


def test_the_optimum_of_two_jobs_on_two_types() -> None:
    # One A and two B; equal shares: a third of the time on A, two on B. a: (4 + 2) / 3 = 2, so its
    # quotient is 4/2 = 2 on A and 1/2 on B. b: (2 + 2) / 3 = 4/3, so 3/2 on A and 3/4 on B. If b has
    # A for the part x of the time and B for the rest, and a the other way round: 2 - 3/2 x = 3/4 +
    # 3/4 x, x = 5/9, both at 7/6.
    seen = told(view(types(A=1, B=2), [job("a"), job("b")]), a=on(A=4, B=1), b=on(A=2, B=1))
    expected = {("a", "A"): 4 / 9, ("a", "B"): 5 / 9, ("b", "A"): 5 / 9, ("b", "B"): 4 / 9}
    assert fractions(seen) == about(expected)


def test_what_does_not_help_the_worst_helps_the_next() -> None:
    # b goes 10 anywhere, just its equal share: nothing lifts it above 1. a then has the whole of A:
    # 40 / 25.
    seen = told(view(types(A=1, B=1), [job("a"), job("b")]), a=on(A=40, B=10), b=on(A=10, B=10))
    assert fractions(seen) == about({("a", "A"): 1, ("b", "B"): 1})


def test_unaware_of_types_speeds_do_not_matter() -> None:
    # With speeds told apart each of the two would be the other way round.
    seen = view(types(A=1, B=1), [job("a"), job("b")])
    one = told(seen, a=on(A=3, B=1), b=on(A=1, B=3))
    other = told(seen, a=on(A=1, B=3), b=on(A=3, B=1))
    assert fractions(one, MaxMin(aware=False)) == fractions(other, MaxMin(aware=False))


def test_large_jobs_count_by_their_devices() -> None:
    # One type: the quotient is devices x fraction, that is devices held on average. small can have 1 at
    # most and has it; the other 3 of the 4 devices are 3/4 of big's time.
    seen = told(view(devices(4), [job("big", 4), job("small")]), big=left(1, *range(1, 5)), small=ALIKE)
    assert fractions(seen) == about({("big", "A100"): 0.75, ("small", "A100"): 1})


def test_a_pool_shares_what_it_may_have() -> None:
    jobs = [job("a1", pool="p"), job("a2", pool="p"), job("b", pool="q")]
    seen = told(view(devices(4), jobs, pools(p=1, q=3)), a1=ALIKE, a2=ALIKE, b=ALIKE)
    entitled = Entitlements({("p", "A100"): 1, ("q", "A100"): 3}, {"A100": 4})
    shares = MaxMin().allocate(seen, entitled, 0.0, None)
    assert isinstance(shares.memory, Turns)
    found = {name_of(job): part for (job, _), part in shares.memory.fractions.items()}
    assert found == pytest.approx({"a1": 0.5, "a2": 0.5, "b": 1}, abs=1e-4)
    assert [each.most for each in shares.allocations] == [1, 0, 1]


def test_pools_limits_hold() -> None:
    jobs = [job("a1", 2, pool="p"), job("a2", 2, pool="p"), job("b", 2, pool="q")]
    seen = told(view(devices(8), jobs, pools(p=2, q=8)), a1=ALIKE, a2=ALIKE, b=ALIKE)
    assert workers(MaxMin(), seen) == {"a1": 2, "a2": 0, "b": 2}


def test_priority_is_the_fraction_over_the_time_had() -> None:
    # X over the rounds each job has had on each type in four rounds:
    #   j0: A 0.6/3 = 0.2        B 0.4/1 = 0.4   C 0
    #   j1: A 0.2/1 = 0.2        B 0.6/3 = 0.2   C 0.2/0 = infinite
    #   j2: A 0.2/0 = infinite   B 0             C 0.8/4 = 0.2
    # so j1 gets C and j2 A, and of what is left j0 gets B.
    seen = view(types(A=1, B=1, C=1), [job(f"j{n}") for n in range(3)])
    seen = told(seen, **{f"j{n}": on(A=1, B=1, C=1) for n in range(3)})
    x = {"j0": (0.6, 0.4, 0.0), "j1": (0.2, 0.6, 0.2), "j2": (0.2, 0.0, 0.8)}
    rounds = {"j0": (3, 1, 0), "j1": (1, 3, 0), "j2": (0, 0, 4)}
    first = ask(MaxMin(), seen).memory
    assert isinstance(first, Turns)

    def by_pair(table: Mapping[str, tuple[float, ...]], times: float) -> dict[tuple[int, str], float]:
        rows = ((number(j), zip("ABC", row, strict=True)) for j, row in table.items())
        return {(j, g): v * times for j, row in rows for g, v in row}

    memory = replace(
        first,
        at=4 * ROUND,
        until=4 * ROUND,
        fractions=by_pair(x, 1.0),
        due=by_pair(x, 4 * ROUND),
        had=by_pair(rounds, ROUND),
    )
    said = ask(MaxMin(), seen, 4 * ROUND, memory).allocations
    assert {name_of(each.job): each.device_type for each in said} == {"j0": "B", "j1": "C", "j2": "A"}


def follow(seen: View, rounds: int) -> list[list[str]]:
    """Who runs in each round, everything the policy says being done at once, on A100s."""
    memory: object = None
    ran = []
    for each_round in range(rounds):
        now = each_round * ROUND
        shares = ask(MaxMin(), seen, now, memory)
        assert shares.again == now + ROUND
        memory = shares.memory
        states: list[JobState] = []
        bits = 0
        for each in shares.allocations:
            state = seen.jobs[each.job]
            fresh = JobState(state.job, Phase.WAITING, state.submitted)
            if each.most:
                held = [("n0", 1 << (bits + n)) for n in range(each.most)]
                bits += each.most
                since = now if state.since is None else state.since
                fresh = running(state.job, at(*held), submitted=state.submitted, since=since)
            states.append(fresh)
        ran.append([name_of(each.job) for each in shares.allocations if each.most])
        seen = replace(seen, jobs={state.number: state for state in states})
    return ran


def test_two_jobs_take_turns_on_one_device() -> None:
    seen = told(view(devices(1), [job("a"), job("b")]), a=ALIKE, b=ALIKE)
    assert follow(seen, 4) == [["a"], ["b"], ["a"], ["b"]]


def test_a_large_job_and_three_small_ones_each_have_their_part() -> None:
    # Four devices on average for four jobs: one each, so 1/4 of the time for the large and all for
    # the small ones, were it possible. They cannot run beside the large one: it gets its quarter, at
    # the least.
    jobs = [job("big", 4), job("x"), job("y"), job("z")]
    seen = told(view(devices(4), jobs), big=left(1, *range(1, 5)), x=ALIKE, y=ALIKE, z=ALIKE)
    ran = follow(seen, 12)
    assert 3 <= sum("big" in each for each in ran) <= 7
    assert all(each in (["big"], ["x", "y", "z"]) for each in ran)


def test_between_rounds_nobody_loses_devices_and_free_ones_are_used() -> None:
    seen = told(view(devices(2), [job("a"), job("b")]), a=ALIKE, b=ALIKE)
    first = ask(MaxMin(), seen)
    crowd = [running(job("a"), at(("n0", 1)), since=0.0), running(job("b"), at(("n0", 2)), since=0.0)]
    later = told(view(devices(2), [*crowd, job("c")]), a=ALIKE, b=ALIKE, c=ALIKE)
    second = ask(MaxMin(), later, 100.0, first.memory)
    assert [each.most for each in second.allocations] == [1, 1, 0]
    assert second.again == ROUND
    ended = told(view(devices(2), [crowd[0], job("c")]), a=ALIKE, c=ALIKE)
    third = ask(MaxMin(), ended, 200.0, second.memory)
    assert [each.most for each in third.allocations] == [1, 1]


def test_a_job_that_was_starting_when_the_round_began_is_not_stopped_in_it() -> None:
    coming = replace(running(job("a"), at(("n0", 1))), phase=Phase.STARTING)
    seen = told(view(devices(1), [coming, job("b")]), a=ALIKE, b=ALIKE)
    first = ask(MaxMin(), seen)
    assert [(name_of(each.job), each.most) for each in first.allocations] == [("b", 0)]
    there = running(job("a"), at(("n0", 1)), since=0.0)
    seen = told(view(devices(1), [there, job("b")]), a=ALIKE, b=ALIKE)
    assert workers(MaxMin(), seen, 10.0, first.memory) == {"a": 1, "b": 0}


def test_what_cannot_be_changed_is_left_alone_and_counted() -> None:
    fixed = running(job("fixed", preemptible=False), at(("n0", 0b1)))
    seen = told(view(devices(2), [fixed, job("a"), job("b")]), a=ALIKE, b=ALIKE)
    assert workers(MaxMin(), seen) == {"a": 1, "b": 0}
    assert fractions(seen) == about({("a", "A100"): 0.5, ("b", "A100"): 0.5})


def test_jobs_of_which_nothing_is_known_share_alike() -> None:
    seen = view(devices(1), [job("a"), job("b")])
    assert fractions(seen) == about({("a", "A100"): 0.5, ("b", "A100"): 0.5})


def test_a_job_without_devices_has_its_gang() -> None:
    seen = view(devices(1), [job("cores", 3, need=Need(millicores=100))])
    shares = ask(MaxMin(), seen)
    assert shares.allocations == (exactly(number("cores"), 3),)
    assert shares.again == float("inf")


def test_a_job_that_fits_nowhere_does_not_hold_the_others_down() -> None:
    seen = told(view(devices(2), [job("big", 4), job("a")]), big=left(1, 1, 2, 3, 4), a=ALIKE)
    assert workers(MaxMin(), seen) == {"big": 0, "a": 1}


SPEEDS = st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=2, max_size=6)


@given(SPEEDS)
def test_nobody_is_worse_off_than_with_an_equal_share(speeds: list[tuple[int, int]]) -> None:
    """An equal share of two A and one B is possible, so the best least quotient is no worse."""
    names = [f"j{n}" for n in range(len(speeds))]
    seen = view(types(A=2, B=1), [job(name) for name in names])
    seen = told(seen, **{name: on(A=a, B=b) for name, (a, b) in zip(names, speeds, strict=True)})
    x = fractions(seen)
    part = min(1.0, 3 / len(speeds))
    for name, (a, b) in zip(names, speeds, strict=True):
        speed = a * x.get((name, "A"), 0.0) + b * x.get((name, "B"), 0.0)
        assert speed >= part * (2 * a + b) / 3 * (1 - 1e-3)
    for device_type, count in everything(seen).capacity.items():
        assert sum(x.get((name, device_type), 0.0) for name in names) <= count + 1e-6
