"""What makes a job more urgent than its length does: the cases of docs/explanation/policies.md."""

from dataclasses import replace
from math import inf

import pytest

from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, Phase, View
from muster.policy.bids import BidMemory, Dues
from muster.policy.muster import AGAIN, AGE, Muster
from muster.policy.urgency import EARLY, STEEP
from tests import builders
from tests.numbers import number
from tests.unit.policy.deal import ask, devices, told, workers

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


def test_what_is_short_goes_first_until_what_is_long_is_late() -> None:
    assert workers(Muster(), two_gangs(0.0)) == {"short": 4, "long": 0}
    # A crowd of two for two hours. Run from now on, `long` ends after 3.33 h (ten minutes left out);
    # a fair share would take 1.5 x (4 + 3) / 3.33 = 3.15 h. Its waiting counts (3.33 / 0.7 / 3.15)^2,
    # that is 2.3 times.
    past = BidMemory({"A100": 4}, dues=Dues(2 * HOUR, {number("long"): 4 * HOUR}))
    assert workers(Muster(), two_gangs(2 * HOUR), 2 * HOUR, past) == {"long": 4, "short": 0}
    mean = Muster(fair=False, makespan=0.0)
    assert workers(mean, two_gangs(2 * HOUR), 2 * HOUR, past) == {"short": 4, "long": 0}
    life = 10 / 3
    assert (life / (EARLY * 1.5 * 7 / life)) ** STEEP == pytest.approx(2.3, abs=0.05)


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
