"""Experiment trackers see one run, wherever the primary is."""

from pathlib import Path
from typing import Any

import pytest

from muster.runtime.user.tracker import Tracker
from tests.runtime.scripts import tasks
from tests.runtime.scripts.jobs import LONG, Job

TRACKED = Path(__file__).parent / "scripts" / "tracked.py"


class Writer:
    """Notes what is written and when it is flushed."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def add(self, tag: str) -> None:
        self.calls.append(tag)

    def flush(self) -> None:
        self.calls.append("flush")

    def close(self) -> None:
        self.calls.append("close")


def before_kills(job: Job) -> set[int]:
    """The steps that may count though their primary was killed before it had logged them."""
    changes = job.history.changes
    return {change.step - 1 for change in changes if change.cause == "failure"}


def test_calls_reach_the_writer_on_the_primary_only() -> None:
    places: list[tuple[str, int] | None] = [None, ("run", 4), None, ("run", 6)]
    started: list[tuple[str, int]] = []
    writer = Writer()

    def start(run: str, step: int) -> Any:
        started.append((run, step))
        return writer

    log = Tracker(start, lambda: places.pop(0), flush=0)
    for tag in "abcd":
        log.add(tag)
    log.close()
    assert started == [("run", 4)]
    assert writer.calls == ["b", "flush", "d", "flush", "close"]


@pytest.mark.slow
def test_tensorboard_shows_one_run_over_a_resize_a_kill_and_a_resumption(tmp_path: Path) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    args = ("--to", "tensorboard", "--checkpoint", str(tmp_path / "saved"))
    with Job(tmp_path, *args, script=TRACKED, workers=2) as job:
        job.ahead(6)
        job.kill("worker-0")
        job.wait_members(1, LONG)
        job.ahead(4)
        job.change(2)
        job.ahead(4)
        job.kill("worker-1")
        job.kill("worker-2")
        assert job.wait(LONG).code == 1
        unlogged = before_kills(job)
    with Job(tmp_path, *args, script=TRACKED, workers=1) as job:
        job.finish()
    (run,) = (tmp_path / "runs").iterdir()
    assert {run.name} == set((tmp_path / "run_id").read_text().split())
    assert len(list(run.iterdir())) >= 3, "a file for each primary"
    events = accumulator.EventAccumulator(str(run)).Reload()
    steps = [event.step for event in events.Scalars("loss")]
    assert steps == sorted(set(steps)), "each once, in order"
    assert set(range(20 * tasks.STEPS)) - set(steps) <= unlogged


@pytest.mark.slow
def test_mlflow_shows_one_run_over_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow = pytest.importorskip("mlflow")
    with Job(tmp_path, "--to", "mlflow", script=TRACKED, workers=2) as job:
        job.ahead(4)
        job.kill("worker-0")
        job.wait_members(1, LONG)
        job.finish()
        unlogged = before_kills(job)
    client = mlflow.MlflowClient((tmp_path / "mlruns").as_uri())
    (experiment,) = [e for e in client.search_experiments() if e.name == "muster"]
    (run,) = client.search_runs([experiment.experiment_id])
    steps = {metric.step for metric in client.get_metric_history(run.info.run_id, "loss")}
    done = set(range(20 * tasks.STEPS))
    assert done - unlogged <= steps <= done
