"""Jobs yet to come: like those of the past, for about as long as that was."""

from itertools import takewhile
from random import Random
from statistics import median
from typing import cast

from muster.foresight.coming import Coming, Part
from muster.foresight.past import Past, PastJob
from muster.sim.truth import Truth
from tests.builders import job

HOUR = 3600.0
WORLDS = 99
NOT_ASKED = cast(Truth, None)


def _past(since: float, *submitted: float) -> Past:
    past = Past()
    jobs = [PastJob(job(f"j{n}", number=n), at, over=True) for n, at in enumerate(submitted)]
    past.restore(since, jobs)
    return past


def _coming_within(seconds: float, past: Past, now: float) -> list[int]:
    """How many jobs come within this time, in each of many worlds."""
    coming = Coming(past, now, first=1000)
    found = []
    for world in range(WORLDS):
        drawn = coming.draw(Random(world), _part(world), lambda *_: NOT_ASKED)
        found.append(len(list(takewhile(lambda each: each.at < now + seconds, drawn))))
    return found


def test_three_jobs_in_the_first_seconds_of_a_daemon_do_not_go_on_for_an_hour() -> None:
    found = _coming_within(HOUR, _past(0.0, 1.0, 5.0, 9.0), now=12.0)
    assert median(found) <= 6
    assert max(found) > 20  # it might be the first of a flood, though


def test_what_has_gone_on_for_days_goes_on_for_the_next_hour() -> None:
    every_quarter = [n * HOUR / 4 for n in range(1, 4 * 24 * 5)]
    found = _coming_within(HOUR, _past(0.0, *every_quarter), now=24 * 5 * HOUR)
    assert median(found) == 4


def _part(world: int) -> Part:
    return lambda matter: (Random(matter).sample(range(WORLDS), WORLDS)[world] + 0.5) / WORLDS


def _over(past: Past, now: float) -> float:
    """The part of the worlds in which no job comes for as long as was seen."""
    found = _coming_within(now, past, now)
    return sum(count == 0 for count in found) / WORLDS


def test_jobs_that_came_every_minute_may_be_over_after_ten_without_one() -> None:
    every_minute = [n * 60.0 for n in range(1, 31)]
    going = _over(_past(0.0, *every_minute), now=1830.0)
    silent = _over(_past(0.0, *every_minute), now=2400.0)
    assert going < 0.1
    assert silent >= 0.5


def test_a_job_that_comes_this_moment_ends_the_silence() -> None:
    every_minute = [n * 60.0 for n in range(1, 31)]
    assert _over(_past(0.0, *every_minute, 2400.0), now=2400.0) < 0.1


def test_a_night_without_jobs_ends_no_stream_that_has_had_nights() -> None:
    """Jobs every quarter of an hour from nine to five; now it is eight on the eleventh morning."""
    days = [d * 24 * HOUR + 9 * HOUR + n * HOUR / 4 for d in range(10) for n in range(33)]
    assert median(_coming_within(24 * HOUR, _past(0.0, *days), now=(10 * 24 + 8) * HOUR)) == 33
