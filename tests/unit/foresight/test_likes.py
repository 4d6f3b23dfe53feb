"""What is known of a job's length from jobs like it."""

from collections.abc import Sequence

import pytest

from muster.foresight.likes import Likes
from muster.foresight.past import PastJob
from muster.model.job import Job
from tests.builders import job

HOUR = 3600.0


def ended(hours: Sequence[float], asked: float | None, user: str = "ann") -> list[PastJob]:
    """Jobs that took these numbers of hours; `asked`: hours that their user asked for each."""
    duration = None if asked is None else asked * HOUR
    found = []
    for i, each in enumerate(hours):
        past = PastJob(_job(f"{user}-{asked}-{i}", duration, user), 0.0, each * HOUR)
        past.over = True
        found.append(past)
    return found


def _job(name: str, duration: float | None, user: str = "ann") -> Job:
    return job(name, duration=duration, user=user)


def test_users_ask_for_more_than_they_take_and_the_next_one_is_known_by_that() -> None:
    """Twenty took a quarter of what they had asked for; nobody asked for 40 hours before."""
    past = [*ended([1.0] * 10, 4.0), *ended([2.0] * 10, 8.0)]
    known = Likes(past).of(_job("new", 40 * HOUR), 0.0)
    assert known.same and known.jobs == 20
    assert known.length.at(0.5) == pytest.approx(10 * HOUR)


def test_each_user_is_wrong_by_a_factor_of_their_own() -> None:
    past = [*ended([1.0] * 30, 2.0), *ended([1.0] * 30, 10.0, user="bob")]
    known = Likes(past)
    asked = 20 * HOUR
    assert known.of(_job("one", asked, "ann"), 0.0).length.at(0.5) == pytest.approx(10 * HOUR)
    assert known.of(_job("other", asked, "bob"), 0.0).length.at(0.4) == pytest.approx(2 * HOUR)


def test_one_that_has_run_for_longer_is_like_those_that_did() -> None:
    past = [*ended([0.5] * 10, 4.0), *ended([2.0] * 10, 4.0)]
    known = Likes(past).of(_job("new", 8 * HOUR), 1.5 * HOUR)
    assert known.length.at(0.1) == pytest.approx(4 * HOUR)


def test_the_first_duration_ever_asked_for_rests_on_no_job() -> None:
    """Lengths of others say nothing of it: the user is believed."""
    known = Likes(ended([1.0] * 10, None)).of(_job("new", 40 * HOUR), 0.0)
    assert (known.jobs, known.same) == (0, False)


def command(name: str, seconds: float, asked: float | None, named: str | None = None) -> PastJob:
    """A job of one command that took some s; `named`: its application."""
    one = job(name, command=("bash", "run.sh"), duration=asked, application=named)
    return PastJob(one, 0.0, seconds, True)


def test_what_a_job_declares_is_not_overruled_by_jobs_that_declared_nothing_like_it() -> None:
    """Six of the command took 3 s and said nothing, six more said 5 s: this one says ten minutes."""
    past = [command(f"p{i}", 3.0, 5.0 if i % 2 else None) for i in range(12)]
    asked = command("new", 0.0, 600.0).job
    assert Likes(past[::2]).of(asked, 0.0).jobs == 0
    assert Likes(past).of(asked, 0.0).length.at(0.5) == pytest.approx(360.0, rel=0.1), "by their parts"
    like = [command(f"l{i}", 450.0, 500.0) for i in range(30)]
    assert Likes([*past, *like]).of(asked, 0.0).length.at(0.5) == pytest.approx(450.0, rel=0.2)


def test_jobs_of_an_application_that_was_named_are_alike_whatever_they_declare() -> None:
    past = [command(f"p{i}", 3.0, None, named="a") for i in range(30)]
    known = Likes(past).of(command("new", 0.0, 600.0, named="a").job, 0.0)
    assert known.jobs == 30
    assert known.length.at(0.4) == pytest.approx(3.0, rel=0.1)


def test_one_that_declares_nothing_learns_from_those_that_did() -> None:
    past = [command(f"p{i}", 3.0, 5.0) for i in range(30)]
    assert Likes(past).of(command("new", 0.0, None).job, 0.0).length.at(0.5) == pytest.approx(3.0)
