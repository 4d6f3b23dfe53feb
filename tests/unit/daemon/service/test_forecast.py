"""What a forecast says of a job before it is submitted."""

from dataclasses import replace

from muster.daemon.service.forecast import GUESS, Question, forecast
from muster.model.job import Job
from muster.model.outlook import Outlook, Table
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES
from muster.wire.records import Forecast
from tests.builders import cluster, job, placement, running, view
from tests.numbers import number

WHOLE = placement(*(("n0", 1 << bit) for bit in range(8)))


def ask(
    asked: Job,
    *others: JobState,
    finishes: dict[str, float] | None = None,
    outlook: Outlook | None = None,
) -> Forecast:
    jobs: list[Job | JobState] = [*others, asked]
    seen: View = view(cluster(1), jobs)
    if outlook is not None:
        seen = replace(seen, outlooks={asked.number: outlook})
    ends = {number(name): end for name, end in (finishes or {}).items()}
    return forecast(POLICIES["fifo"], Question(seen, asked.number, ends, 100.0))


def test_a_job_that_fits_starts_now_and_ends_after_its_duration() -> None:
    answer = ask(job("a", 2, duration=60.0))
    assert answer.starts_now
    assert "n0" in answer.placement
    assert (answer.start, answer.finish) == (100.0, 160.0)


def test_a_job_that_has_to_wait_starts_when_enough_devices_come_free() -> None:
    busy = running(job("busy", 8), WHOLE)
    answer = ask(job("a", 2, duration=60.0), busy, finishes={"busy": 130.0})
    assert not answer.starts_now
    assert answer.placement == ""
    assert "busy" in answer.reason
    assert (answer.start, answer.finish) == (130.0, 190.0)


def test_without_a_known_end_there_is_no_start_and_no_finish() -> None:
    answer = ask(job("a", 2, duration=60.0), running(job("busy", 8), WHOLE))
    assert (answer.start, answer.finish) == (None, None)


def test_a_finish_is_told_only_where_it_is_more_than_a_guess() -> None:
    sure = Outlook(100.0, Table((1.0, 2.0)), spread=0.1)
    answer = ask(job("a", 2), outlook=sure)
    assert answer.finish == 150.0, "100 of work at 2/s with two workers"
    assert ask(job("a", 2), outlook=replace(sure, spread=GUESS + 0.1)).finish is None


def test_the_plan_in_words() -> None:
    assert "2 workers" in ask(job("a", 2)).plan
    assert "fixed size" in ask(job("a", 2)).plan
    assert "resized live" in ask(job("a", 1, most=4)).plan
    assert "1 server" in ask(job("a", 1, servers=1)).plan
