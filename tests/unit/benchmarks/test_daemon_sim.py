"""What the benchmark of the daemon against the simulator takes from a journal is what happened."""

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest

from muster.files import load_cluster, load_job
from muster.model.event import (
    Ended,
    Outcome,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
)
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from tests.builders import job, placement
from tests.numbers import number

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
DEMO = Path(__file__).parents[3] / "examples/demo"
ONE, TWO = placement(("n0", 1)), placement(("n0", 1), ("n0", 2))


@pytest.fixture
def real(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _loaded(monkeypatch, "support.demo_real")


@pytest.fixture
def beliefs(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _loaded(monkeypatch, "support.demo_beliefs")


def _loaded(monkeypatch: pytest.MonkeyPatch, name: str) -> ModuleType:
    """A module as the benchmarks themselves import it."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    for known in [each for each in sys.modules if each.split(".")[0] == "support"]:
        monkeypatch.delitem(sys.modules, known)
    return importlib.import_module(name)


def test_delays_are_told_apart(real: ModuleType) -> None:
    story = real.Story(job("j", 1, most=4), submitted=0.0)
    for fact in (
        StartBegun(number("j"), 1, ONE, 1.0),
        Started(number("j"), 1, 6.0),
        ResizeBegun(number("j"), 2, TWO, 10.0),
        Resized(number("j"), 2, 14.0),
        ResizeBegun(number("j"), 3, ONE, 20.0),
        Resized(number("j"), 3, 21.0),
        PreemptBegun(number("j"), 4, 30.0),
        Preempted(number("j"), 4, 33.0),
        StartBegun(number("j"), 5, TWO, 40.0),
        Started(number("j"), 5, 47.0),
        Ended(number("j"), 5, Outcome.SUCCEEDED, 60.0),
    ):
        story.take(fact, fact.at)
    assert story.crews == [(6.0, 1), (14.0, 2), (21.0, 1), (33.0, 0), (47.0, 2), (60.0, 0)]
    assert story.warmups == [(1, 5.0), (1, 4.0), (2, 7.0)]
    assert (story.releases, story.stops) == ([1.0], [3.0])
    assert real.usual([story.releases, story.stops]) == 2.0
    line = real.warmup([story])
    assert (line.once, line.each) == (pytest.approx(2.0), pytest.approx(2.5))


def test_steps_are_counted_where_nothing_changes(real: ModuleType) -> None:
    """10 steps in 1 s with two workers; what lies within the change to one is left out."""
    story = real.Story(job("j", 1, most=4, application="cnn"), submitted=0.0)
    story.mixed = [(2.5, 3.0)]
    looks = [(1.0, 0, 2), (2.0, 10, 2), (3.0, 17, 1), (5.0, 27, 1)]
    story.looks = [real.Look(*each) for each in looks]
    assert real.timed([story], {("cnn", 2): 0.25}) == {
        "cnn": (real.TimedStep(1, 0.2, 0.0), real.TimedStep(2, 0.1, 0.025))
    }


def test_a_length_is_believed_no_sooner_than_the_daemon_hears_of_it(beliefs: ModuleType) -> None:
    """First what its user says, of its time or of its steps; then what it says itself."""
    captured = {name: beliefs.Captured(600, 32) for name in ("first", "second")}
    heard = beliefs.Heard({"": 4}, captured)
    first = job("first", 1, most=4, application="cnn", duration=100.0, work=500.0)
    second = job("second", 1, most=4, application="cnn", duration=100.0, work=500.0)
    crew = Held("", (1,))

    def left(which: object, on: Held | None) -> float:
        found: float = heard.outlook(which, None, on, 0.0).left
        return found

    assert left(first, None) == pytest.approx(100.0)
    assert left(second, None) == pytest.approx(100.0)
    heard.watch(first, crew, StepReport(0.1), 10.0)
    assert left(first, crew) == pytest.approx(60.0, rel=0.05)
    assert left(second, None) == pytest.approx(50.0, rel=0.05)


def test_the_demo_is_six_jobs_of_three_kinds_in_two_pools() -> None:
    site = load_cluster(DEMO / "cluster.yaml")
    jobs = [load_job(path) for path in DEMO.glob("*-*.yaml")]
    assert len(jobs) == 6
    assert {job.pool for job in jobs} == set(site.pools.leaves())
    kinds = [job.application for job in jobs]
    assert sorted(map(str, kinds)) == ["cnn", "cnn", "gpt", "gpt", "wide", "wide"]
    assert sum(job.workers.most for job in jobs) > site.cluster.devices_by_type()["cpu"] == 8
