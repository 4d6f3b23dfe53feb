"""Questions about the future in a real process: answered, refused, and after its death."""

import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import pytest

from muster.core.cycle.cycle import Memory
from muster.daemon.foresight import process as module
from muster.daemon.foresight.messages import ForesightError
from muster.daemon.foresight.process import ForesightProcess
from muster.foresight.forecaster import Forecaster
from muster.foresight.play import JobForecast, Present
from muster.model.view import View
from tests.builders import cluster, job, view

SOON = 120.0


@pytest.fixture
def process() -> Iterator[ForesightProcess]:
    found = ForesightProcess()
    found.start()
    yield found
    found.close()


def queue() -> View:
    return view(cluster(1), [job("a", 8, duration=600.0), job("b", 8, duration=600.0)])


def names(present: Present, forecaster: Forecaster) -> tuple[str, ...]:
    return tuple(sorted(state.job.name for state in present.view.jobs.values()))


def fail(present: Present, forecaster: Forecaster) -> None:
    raise ValueError("no such future")


@dataclass(frozen=True)
class Submitting:
    """A question with a value of its own."""

    name: str

    def __call__(self, present: Present, forecaster: Forecaster) -> tuple[str, float]:
        return self.name, present.now


def ask(process: ForesightProcess, question: object) -> object:
    return process.ask(question, "fifo", Memory()).result(SOON)  # type: ignore[arg-type]


def test_every_job_of_the_last_view_gets_a_forecast(process: ForesightProcess) -> None:
    process.see(queue(), 100.0)
    found = process.ask(forecast_all, "fifo", Memory(), yields=True).result(SOON)
    one, other = (found[number] for number in sorted(found))
    assert isinstance(one, JobForecast) and isinstance(other, JobForecast)
    assert one.start is not None and other.start is not None
    assert other.start.middle > one.start.middle == 100.0
    assert other.finish.high >= other.finish.middle > one.finish.middle > 100.0


def forecast_all(present: Present, forecaster: Forecaster) -> dict[int, JobForecast]:
    return forecaster.ask(present)


def test_any_question_that_can_be_sent_is_answered_about_the_view_seen_last(
    process: ForesightProcess,
) -> None:
    process.see(queue(), 1.0)
    assert ask(process, names) == ("a", "b")
    process.see(view(cluster(1), [job("c", 1)]), 2.0)
    assert ask(process, partial(names)) == ("c",)
    assert ask(process, Submitting("d")) == ("d", 2.0)


def test_a_question_that_fails_says_why_and_the_next_is_answered(process: ForesightProcess) -> None:
    process.see(queue(), 1.0)
    with pytest.raises(ForesightError, match="no such future"):
        ask(process, fail)
    with pytest.raises(ForesightError, match="cannot be sent"):
        ask(process, lambda present, forecaster: 1)
    assert ask(process, names) == ("a", "b")


def test_one_that_dies_is_replaced(process: ForesightProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "AGAIN", 0.0)
    process.see(queue(), 1.0)
    ask(process, names)
    assert process.pid is not None
    before = process.pid
    open_question = process.ask(names, "fifo", Memory())
    os.kill(before, signal.SIGKILL)
    try:
        open_question.result(SOON)
    except ForesightError as error:
        assert "died" in str(error)
    process.see(queue(), 2.0)
    while True:  # asked before its death was noticed, it may fail once more
        try:
            assert ask(process, names) == ("a", "b")
            break
        except ForesightError:
            process.see(queue(), 3.0)
    assert process.pid not in (None, before)
    assert process.replaced >= 1


def test_what_is_open_fails_when_it_closes() -> None:
    process = ForesightProcess()
    process.start()
    process.see(queue(), 1.0)
    process.close()
    with pytest.raises(ForesightError, match="closing"):
        process.ask(names, "fifo", Memory()).result(SOON)
