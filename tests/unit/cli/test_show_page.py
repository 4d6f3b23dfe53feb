"""`muster show` in detail: predictions against reality, losses, ends."""

from dataclasses import replace
from pathlib import Path
from runpy import run_path

import pytest

from muster.cli.render.job_page import LAST, job_page
from muster.cli.render.sparkline import sparkline
from muster.wire.api.foresight_records import JobForecastRecord
from muster.wire.api.records import ChangeRecord, JobDetail, PredictionRecord, ProgramRecord
from tests.unit.cli.lab import a_job, a_task, a_waiting_job

NOW = 1_000_000.0


def lines(detail: JobDetail, **more: bool) -> list[str]:
    return job_page(detail, NOW, **more).splitlines()


def test_predictions_stand_beside_what_came_true() -> None:
    predictions = (
        PredictionRecord(NOW, "finish", NOW + 90, NOW + 100, -0.1),
        PredictionRecord(NOW, "step", 0.021, 0.02, 0.05),
        PredictionRecord(NOW, "start", NOW + 10),
    )
    found = lines(JobDetail(a_job(), predictions=predictions))
    heading = next(i for i, line in enumerate(found) if "PREDICTED" in line)
    assert [line.split()[2:] for line in found[heading + 1 :]] == [
        ["finish", "1m30s", "1m40s", "-10%"],
        ["step", "21", "ms", "20", "ms", "+5%"],
        ["start", "10s", "-", "-"],
    ]


def test_the_end_of_a_job_shows_how_good_its_predictions_were() -> None:
    made = tuple(PredictionRecord(NOW + i, "finish", NOW + 110.0) for i in range(0, 100, 2))
    job = a_job(status="succeeded", submitted=NOW, ended=NOW + 100)
    found = [line.split() for line in lines(JobDetail(job, predictions=made)) if " finish " in line]
    predicted = [words[2:] for words in found if words[2] == "finish"]
    assert len(predicted) == LAST
    assert predicted[0] == ["finish", "1m50s", "1m40s", "+10%"]
    assert predicted[-1] == ["finish", "12s", "2s", "+500%"]


def test_the_end_is_held_against_the_first_prediction() -> None:
    job = a_job(submitted=NOW, status="succeeded", ended=NOW + 100, first_predicted_finish=NOW + 90)
    (end,) = (line for line in lines(JobDetail(job)) if line.startswith("  finish"))
    assert end.endswith("after 1m40s; first predicted after 1m30s (-10%)")


def test_a_waiting_job_says_when_it_will_start() -> None:
    job = a_waiting_job(submitted=NOW - 60, predicted_start=NOW + 60)
    found = lines(JobDetail(job))
    assert any(line.endswith("1m00s ago, expected to start in 1m00s") for line in found)
    assert "  has       nothing" in found


def test_limits_that_are_not_enforced_stand_under_the_request() -> None:
    found = lines(JobDetail(a_job(), caveats=("memory is not enforced: no cgroups",)))
    assert "  note      memory is not enforced: no cgroups" in found


def test_only_the_last_changes_are_shown_unless_all_are_asked_for() -> None:
    changes = tuple(ChangeRecord(i, NOW, "Resized", "resnet50", f"number {i}") for i in range(20))
    detail = JobDetail(a_job(), changes=changes)
    assert not any(line.endswith("number 7") for line in lines(detail))
    assert any(line.endswith("number 8") for line in lines(detail))
    assert any(line.endswith("number 0") for line in lines(detail, every=True))


def test_tasks_say_how_they_ended() -> None:
    tasks = (
        a_task(0, 0, status="ended", code=3),
        a_task(1, 1, status="ended", signal=9),
        a_task(2, 2, status="ended", error="the node is gone"),
    )
    found = [line for line in lines(JobDetail(a_job(), tasks)) if line.startswith("worker-")]
    for line, end in zip(found, ("exit code 3", "signal 9 (SIGKILL)", "the node is gone"), strict=True):
        assert f"  {end} " in line


def test_losses_are_a_line_of_bars() -> None:
    detail = JobDetail(a_job(), losses=((1, 2.0), (2, 1.0), (3, 0.0)))
    assert any(line.endswith("█▅▁  2 to 0") for line in lines(detail))


def test_a_job_shows_what_it_runs_where_and_with_which_variables() -> None:
    program = ProgramRecord(
        "/venv/bin/python",
        "/home/ada",
        env={"SEED": "7", "API_TOKEN": "***"},
        inherited={"PATH": "/venv/bin"},
    )
    found = lines(JobDetail(a_job(), program=program))
    at = found.index("  command   python train.py --lr 0.1")
    assert found[at + 1 : at + 6] == [
        "  program   /venv/bin/python",
        "  folder    /home/ada",
        "  env       API_TOKEN=***",
        "            SEED=7",
        "  inherits  PATH=/venv/bin",
    ]


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        ([], ""),
        ([1.0, 1.0], "▁▁"),
        ([0.0, float("nan"), 7.0], "▁ █"),
        ([float("inf")], " "),
        ([0.0] * 90 + [7.0] * 90, "▁" * 30 + "█" * 30),
    ],
)
def test_curves_fit_into_a_line(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn


def test_outcomes_hold_predictions_against_reality() -> None:
    good = a_job(
        1,
        "cnn-a",
        submitted=NOW,
        ended=NOW + 100,
        first_predicted_finish=NOW + 110,
        status="succeeded",
        command=("python", "examples/cnn.py"),
    )
    other = replace(
        good, number=2, name="gpt-a", submitted=NOW - 9, first_predicted_finish=None, command=()
    )
    path = str(Path(__file__).parents[3] / "examples/demo/outcome.py")
    told = run_path(path)["outcome_table"]([good, other], {"gpt-a": "transformer"})
    heading, first, second = (" ".join(line.split()) for line in told.splitlines())
    assert heading == (
        "JOB KIND POOL STATUS MADE PREDICTED 80% INTERVAL "
        "REAL WITHIN ERROR RESIZES PREEMPTED PAUSE LOSS"
    )
    assert first == "gpt-a transformer research succeeded - - - 1m49s - - 1 0 250 ms 0.04213"
    assert second == "cnn-a cnn research succeeded - 1m50s - 1m40s - +10% 1 0 250 ms 0.04213"
    kept = JobForecastRecord("finish", "start", NOW + 20, NOW + 70, NOW + 84, NOW + 95, 0, NOW + 100)
    told = run_path(path)["outcome_table"]([good], None, {1: [kept]})
    (_, line) = (" ".join(line.split()) for line in told.splitlines())
    assert line.startswith("cnn-a cnn research succeeded at start 1m24s 1m10s to 1m35s 1m40s late -20%")
