"""What makes a job more urgent than its length does: the cases of docs/explanation/policies.md."""

from dataclasses import replace
from math import inf

import pytest

from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, Phase, View
from muster.policy.market.bids import BidMemory, Dues
from muster.policy.market.urgency import DUE, LATEST
from muster.policy.muster import AGAIN, AGE, Muster
from tests import builders
from tests.numbers import number
from tests.unit.policy.deal import ask, devices, on, told, types, workers

FOUR = devices(4)
HOUR = 3600.0


def waits(name: str, gang: int, submitted: float = 0.0) -> JobState:
    """A rigid job in the queue."""
    asked = builders.job(name, gang=gang, most=gang, pause=0.0)
    return JobState(asked, Phase.WAITING, submitted=submitted)


def needs(hours: float, gang: int) -> Outlook:
    """So many hours on its gang."""
    return Outlook(hours * HOUR, Table((*(0.0,) * (gang - 1), 1.0)))


def two_gangs(now: float) -> View:
    """Two jobs that each need all four devices; `short` has just been submitted."""
    seen = builders.view(FOUR, [waits("long", 4), waits("short", 4, now)])
    return told(seen, long=needs(1.5, 4), short=needs(1, 4))


@pytest.mark.parametrize(
    ("hours", "ratio", "first_from"), [(2, 1.06, 1.0), (3, 1.39, 1.0), (4, 1.72, 0.5), (6, 2.39, 0.3)]
)
def test_what_is_short_goes_first_until_what_is_long_is_too_late(
    hours: int, ratio: float, first_from: float
) -> None:
    assert workers(Muster(), two_gangs(0.0)) == {"short": 4, "long": 0}
    # A crowd of two for two hours. Run from now on, `long` ends after 3.33 h (ten minutes left out);
    # a fair share would take 1.5 x (4 + 3) / 3.33 = 3.15 h: its ratio would be 1.06. After four hours
    # it would end after 5.33 h, 1.72 of its fair time.
    life = hours - 1 / 6 + 1.5
    assert life / (1.5 * 2 * (hours + 1.5) / life) == pytest.approx(ratio, abs=0.005)
    assert DUE < 1.06 < 1.39 < LATEST < 1.72
    now = hours * HOUR
    past = BidMemory({"A100": 4}, dues=Dues(now, {number("long"): 2 * now}))
    for fair in (0.0, 0.3, 0.5, 1.0):
        first = "long" if fair >= first_from else "short"
        rule = Muster(fair=fair, makespan=0.0, guarantee=1e9)  # which would serve it after 2 h 40 min
        dealt = workers(rule, two_gangs(now), now, past)
        assert dealt == {"long": 0, "short": 0} | {first: 4}


@pytest.mark.parametrize("minutes", [10, 20, 40])
def test_what_has_begun_because_it_was_late_goes_on_when_nobody_else_is(minutes: float) -> None:
    # `long` got its devices after two hours. Nobody who waits is late, but `long` would be again if it
    # were stopped for a shorter job, and so would only be started once more.
    since, now = 2 * HOUR, 2 * HOUR + 60 * minutes
    held = builders.placement(*(("n0", 1 << bit) for bit in range(4)))
    runs = builders.running(waits("long", 4).job, held, started=since)
    past = BidMemory({"A100": 4}, dues=Dues(since, {number("long"): 4 * HOUR}))
    seen = told(
        builders.view(FOUR, [runs, waits("short", 4, now)]), long=needs(1.5, 4), short=needs(0.5, 4)
    )
    assert workers(Muster(makespan=0.0, fair=1.0), seen, now, past)["long"] == 4


def three_late(fair: float) -> dict[str, int]:
    """Three jobs that have waited for two hours in a crowd of two, and four short ones that have just
    come, each on one device of four; what each is dealt."""
    now, late = 2 * HOUR, {"a": 2.3, "b": 2.2, "c": 2.1}
    new = {f"new-{i}": needs(0.1, 1) for i in range(4)}
    states = [*(waits(name, 1) for name in late), *(waits(name, 1, now) for name in new)]
    known = {name: needs(hours, 1) for name, hours in late.items()}
    past = BidMemory({"A100": 4}, dues=Dues(now, {number(name): 2 * now for name in late}))
    seen = told(builders.view(FOUR, states), **known, **new)
    return workers(Muster(makespan=0.0, fair=fair), seen, now, past)


@pytest.mark.parametrize(("fair", "served"), [(0.5, 0), (0.75, 2), (1.0, 3)])
def test_of_those_that_would_be_late_the_shortest_go_first_on_a_part_of_the_devices(
    fair: float, served: int
) -> None:
    # Run from now on they end after 4.1, 4.0 and 3.9 h; fair were 4.5, 4.3 and 4.1 h: ratios of 0.92 to
    # 0.96. If the latest were always next, all three would be late in the end.
    found = three_late(fair)
    assert [name for name in "cba" if found[name]][:served] == list("cba")[:served]
    assert sum(found[f"new-{i}"] for i in range(4)) >= min(3, 4 - served)
    assert sum(found.values()) == 4


def test_a_length_of_which_nothing_is_known_makes_nobody_late() -> None:
    seen, dues = two_gangs(2 * HOUR), Dues(2 * HOUR, {number("long"): 4 * HOUR})
    vague = replace(needs(1.5, 4), spread=1.5)
    seen = told(seen, long=vague, short=needs(1, 4))
    past = BidMemory({"A100": 4}, dues=dues)
    dealt = workers(Muster(fair=1.0), seen, 2 * HOUR, past)
    assert dealt == {"short": 4, "long": 0}


def test_how_crowded_its_life_was_is_remembered() -> None:
    first = ask(Muster(), two_gangs(0.0)).memory
    later = ask(Muster(), two_gangs(HOUR), HOUR, first).memory
    assert isinstance(later, BidMemory)
    assert later.dues == Dues(HOUR, {number("long"): 2 * HOUR, number("short"): 0.0})


def one_long(others: int) -> View:
    """A job of ten hours and some of two, each on one device of four."""
    names = [f"s{i}" for i in range(others)]
    seen = builders.view(FOUR, [waits("long", 1), *(waits(name, 1) for name in names)])
    return told(seen, long=needs(10, 1), **{name: needs(2, 1) for name in names})


@pytest.mark.parametrize(("makespan", "others", "starts"), [(0.0, 8, 0), (0.45, 8, 1), (0.45, 20, 0)])
def test_the_job_that_would_end_last_starts_in_time(makespan: float, others: int, starts: int) -> None:
    # With eight others all work takes (10 + 16) / 4 = 6.5 h: 0.45 x 10 >= 0.55 x 6.5. With twenty it
    # takes 12.5 h, and 4.5 < 6.9: there is time.
    assert workers(Muster(makespan=makespan), one_long(others))["long"] == starts


def test_slow_devices_count_as_what_they_do() -> None:
    # One A100 and three T4 of an eighth of its speed are 1.375 A100: all work takes 26 / 1.375 = 18.9 h
    # and there is time. Four of the same speed would take 6.5 h, and `long` would go first.
    names = [f"s{i}" for i in range(8)]
    jobs = [waits("long", 1), *(waits(name, 1) for name in names)]
    lengths = {"long": 10 * HOUR} | dict.fromkeys(names, 2 * HOUR)
    known = {name: on(work, A100=1.0, T4=0.125) for name, work in lengths.items()}
    seen = told(builders.view(types(A100=1, T4=3), jobs), **known)
    assert workers(Muster(), seen)["long"] == 0
    assert workers(Muster(makespan=0.7), seen)["long"] == 1


def test_the_longest_goes_first_if_only_the_end_counts() -> None:
    assert workers(Muster(makespan=1.0), one_long(20))["long"] == 1


def test_what_still_shows_its_speed_is_asked_about_again() -> None:
    asked = builders.job("a", gang=1, most=4, pause=1.0)
    state = builders.running(asked, builders.placement(("n0", 1)), since=0.0)
    seen = told(builders.view(FOUR, [state]), a=Outlook(1e6, Table((1.0,)), 0.5, 1.0))
    assert ask(Muster(), seen, 10.0).again <= 10.0 + AGAIN
    assert ask(Muster(), seen, 1e5).again <= 1e5 * (1 + AGE)
    certain = replace(seen, outlooks={number("a"): Outlook(1e6, Table((1.0,)))})
    assert ask(Muster(), certain, 10.0).again == inf
