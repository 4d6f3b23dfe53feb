"""What a forecast says of a job before it is submitted."""

from dataclasses import replace

import pytest

from muster.daemon.service.submitting.forecast import SHOWN, Question, forecast
from muster.model.job import Job, Program
from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES
from muster.wire.api.records import Forecast
from tests.builders import cluster, job, placement, running, view

WHOLE = placement(*(("n0", 1 << bit) for bit in range(8)))


def ask(
    asked: Job, *others: JobState, outlook: Outlook | None = None, policy: str = "fifo"
) -> Forecast:
    jobs: list[Job | JobState] = [*others, asked]
    seen: View = view(cluster(1), jobs)
    if outlook is not None:
        seen = replace(seen, outlooks={asked.number: outlook})
    return forecast(POLICIES[policy], Question(seen, asked.number, 100.0))


def test_a_job_that_fits_starts_now_and_ends_after_its_duration() -> None:
    answer = ask(job("a", 2, duration=60.0))
    assert answer.starts_now
    assert "n0" in answer.placement
    assert (answer.start, answer.finish) == (100.0, 160.0)
    assert answer.basis == "its declared duration"


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_job_that_has_to_wait_is_told_no_time(policy: str) -> None:
    # The policy may preempt for it in a second, and jobs ahead may keep it waiting for hours.
    busy = running(job("busy", 8, duration=30.0, preemptible=False), WHOLE)
    answer = ask(job("a", 2, duration=60.0), busy, policy=policy)
    assert not answer.starts_now
    assert answer.placement == ""
    assert (answer.start, answer.finish, answer.basis) == (None, None, "")


def test_a_wait_is_told_with_its_reason() -> None:
    assert "busy" in ask(job("a", 2), running(job("busy", 8), WHOLE)).reason


def test_a_finish_is_told_only_where_it_is_more_than_a_guess() -> None:
    sure = Outlook(100.0, Table((1.0, 2.0)), spread=0.1)
    answer = ask(job("a", 2, work=100.0), outlook=sure)
    assert answer.finish == 150.0, "100 of work at 2/s with two workers"
    assert answer.basis == "its declared work"
    assert ask(job("a", 2), outlook=sure).finish is None, "nobody has said how much work it is"
    assert ask(job("a", 2, work=100.0), outlook=replace(sure, spread=SHOWN + 0.1)).finish is None


def test_the_plan_in_words() -> None:
    assert "2 workers" in ask(job("a", 2)).plan
    assert "fixed size" in ask(job("a", 2)).plan
    assert "resized live" in ask(job("a", 1, most=4)).plan
    assert "1 worker with a device, fixed size" in ask(job("a", 1)).plan
    assert "2 workers with a device each" in ask(job("a", 2)).plan
    assert "1 server" in ask(job("a", 1, servers=1)).plan


@pytest.mark.parametrize(("limit", "finish"), [(None, None), (7200.0, 7300.0)])
def test_a_session_is_told_no_end_but_its_time_limit(limit: float | None, finish: float | None) -> None:
    answer = ask(job("s", duration=60.0, program=Program(interactive=0.0, time=limit)))
    assert (answer.finish, answer.basis) == (finish, "its time limit" if limit else "")


@pytest.mark.parametrize(("declared", "finish"), [(None, 130.0), (300.0, 130.0), (20.0, 120.0)])
def test_no_job_is_told_an_end_beyond_its_time_limit(declared: float | None, finish: float) -> None:
    answer = ask(job("a", duration=declared, program=Program(time=30.0)))
    assert (answer.start, answer.finish) == (100.0, finish)
    assert answer.basis == ("its declared duration" if declared == 20.0 else "its time limit")
