"""When a forecast is kept, and how those that came true are scored."""

from dataclasses import replace

import pytest

from muster.foresight.kept import FINISH, KeptForecast
from muster.foresight.marks import Marks
from muster.foresight.play import JobForecast
from muster.foresight.quantiles import TimeInterval
from muster.foresight.score import reliability, score
from muster.model.view import JobState
from tests.builders import cluster, job, placement, view


def _state(*, runs: bool) -> JobState:
    waiting = next(iter(view(cluster(1), [job("a", 1)]).jobs.values()))
    return replace(waiting, placement=placement(("n0", 1)), started=100.0) if runs else waiting


def _forecast(made: float, finish: float) -> JobForecast:
    return JobForecast(None, TimeInterval(finish, finish - 10, finish + 10), made=made)


def test_each_mark_is_passed_once_and_parts_are_of_the_run_as_forecast() -> None:
    marks, waiting, running = Marks(), _state(runs=False), _state(runs=True)
    marks.see(waiting, 0.0)
    assert marks.due(waiting, _forecast(0.0, 500.0)) == "submission"
    assert marks.due(waiting, _forecast(50.0, 500.0)) is None
    marks.see(running, 100.0)
    assert marks.due(running, _forecast(101.0, 500.0)) == "start"
    assert marks.due(running, _forecast(150.0, 500.0)) is None
    assert marks.due(running, _forecast(310.0, 500.0)) == "50%", "25% was passed unseen"
    assert marks.due(running, _forecast(320.0, 1500.0)) is None, "it is farther away than was thought"
    assert marks.due(running, _forecast(450.0, 500.0)) == "75%"


def _kept(came: float, mark: str = "start", pool: str = "a", rests_on: int = 0) -> KeptForecast:
    said = TimeInterval(100.0, 50.0, 200.0)
    return KeptForecast(1, FINISH, mark, 0.0, said, said, pool, False, rests_on, came)


def test_coverage_and_error_are_told_by_group() -> None:
    kept = [_kept(100.0), _kept(40.0), _kept(150.0, pool="b"), _kept(400.0, "50%", rests_on=7)]
    found = {(each.by, each.name): each for each in score(kept)}
    every = found["all", "all"]
    assert (every.forecasts, every.covered, every.early, every.late) == (4, 0.5, 0.25, 0.25)
    assert every.width == 4.0
    assert found["pool", "b"].covered == 1.0 and found["pool", "b"].error == pytest.approx(1 / 3)
    assert found["kind", "similar jobs"].late == 1.0 and found["made", "50%"].forecasts == 1
    assert found["horizon", "up to 1m00s"].forecasts == 1


def test_reliability_lies_on_the_diagonal_if_quantiles_are_right() -> None:
    kept = [_kept(came) for came in (45.0, 60.0, 80.0, 95.0, 105.0, 130.0, 180.0, 195.0, 198.0, 300.0)]
    points = dict(reliability(kept))
    assert (points[0.1], points[0.5], points[0.9]) == (0.1, 0.4, 0.9)
    assert reliability([]) == [] and score([]) == []
