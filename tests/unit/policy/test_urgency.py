"""What makes a job more urgent than its length does: the cases of docs/explanation/policies.md."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest

from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, Phase, View
from muster.policy.market.bids import BidMemory, Dues
from muster.policy.market.lateness import FROM, LATER, TO, risks
from muster.policy.market.urgency import LATEST, RISK
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


def risk(waited: float, spread: float = 0.0) -> float:
    """The risk of `long` after waiting this many hours in a crowd of two; 2.5 h of work are left."""
    hours = (1.5, 0.0, spread, 0.0, waited, 2 * waited, 2.0)
    found = risks(np.array([[each] for each in hours]), 2.5)
    return float(found[0])


def test_waiting_is_a_risk_while_a_job_can_be_in_time_and_soon_cannot() -> None:
    # After an hour, begun now, `long` ends after 2.5 h. The crowd of two falls to none within 2.5 h of
    # work: 1 x 2 + 1.5 x 2 x (1 - 1.5 / 5) = 4.1 h, 1.64 on average, and a fair share takes 2.46 h.
    now = 2.5 / (1.5 * 4.1 / 2.5)
    later = 2.6 / (1.5 * (2 + 1.6 * 2 * (1 - 1.6 / 5)) / 2.6)
    assert pytest.approx(0.1) == LATER * 2.5
    assert now == pytest.approx(1.016, abs=1e-3)
    assert later == pytest.approx(1.079, abs=1e-3)
    assert risk(1.0) == pytest.approx((later - now) / (TO - FROM), abs=0.1)
    # At first there is time; after three hours it is late whatever is done.
    assert risk(0.0) < 0.01
    assert risk(3.0) < 0.01
    # Of a job of which little is known the risk is small, but there longer.
    assert 0.0 < risk(1.0, 1.5) < risk(1.0)
    assert risk(3.0, 1.5) > 0.0


@pytest.mark.parametrize(
    ("hours", "first_from"), [(0.5, 2.0), (1, 0.3), (2, 2.0), (3, 2.0), (4, 0.5), (6, 0.3)]
)
def test_what_is_short_goes_first_unless_what_is_long_would_be_late_or_is_too_late(
    hours: float, first_from: float
) -> None:
    assert workers(Muster(), two_gangs(0.0)) == {"short": 4, "long": 0}
    # Of two equally wide jobs the shorter is worth twice as much.
    assert 1 + RISK * 0.3 * risk(1.0) > 2 > 1 + RISK * 1.0 * risk(2.0)
    # After four hours it would end after 5.33 h (ten minutes left out), 1.72 of its fair time.
    life = hours - 1 / 6 + 1.5
    ratio = life / (1.5 * 2 * (hours + 1.5) / life)
    assert (ratio > LATEST) == (hours >= 4)
    now = hours * HOUR
    past = BidMemory({"A100": 4}, dues=Dues(now, {number("long"): 2 * now}))
    for fair in (0.0, 0.3, 0.5, 1.0):
        first = "long" if fair >= first_from else "short"
        rule = Muster(fair=fair, makespan=0.0, guarantee=1e9)  # which would serve it after 2 h 40 min
        dealt = workers(rule, two_gangs(now), now, past)
        assert dealt == {"long": 0, "short": 0} | {first: 4}


@pytest.mark.parametrize("minutes", [10, 20, 40])
def test_what_has_begun_because_it_was_late_goes_on_when_nobody_else_is(minutes: float) -> None:
    # `long` got its devices after four hours, far too late, and what it has had does not make it any
    # earlier. `short` is new and has time; `long` would only be started once more.
    since, now = 4 * HOUR, 4 * HOUR + 60 * minutes
    held = builders.placement(*(("n0", 1 << bit) for bit in range(4)))
    runs = builders.running(waits("long", 4).job, held, started=since)
    past = BidMemory({"A100": 4}, dues=Dues(since, {number("long"): 8 * HOUR}))
    seen = builders.view(FOUR, [runs, waits("short", 4, now)])
    seen = told(seen, long=needs(1.5 - minutes / 60, 4), short=needs(0.5, 4))
    assert workers(Muster(makespan=0.0), seen, now, past)["long"] == 4


def test_what_can_be_resized_does_not_count_more_for_being_late() -> None:
    # It shrinks before it waits, and what it would take alone on its gang is not what it asks for.
    now = HOUR
    elastic = JobState(builders.job("long", gang=4, most=8, pause=0.0), Phase.WAITING, submitted=0.0)
    past = BidMemory({"A100": 4}, dues=Dues(now, {number("long"): 2 * now}))
    seen = builders.view(FOUR, [elastic, waits("short", 4, now)])
    seen = told(seen, long=needs(1.5, 4), short=needs(1, 4))
    rule = Muster(makespan=0.0, guarantee=1e9)
    assert workers(rule, seen, now, past) == {"short": 4, "long": 0}


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
    assert workers(Muster(makespan=makespan, fair=0.0), one_long(others))["long"] == starts


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
