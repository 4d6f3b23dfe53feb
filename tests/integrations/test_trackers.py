"""Trackers of the frameworks show one run when the primary dies: another worker continues it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.jobs import job
from tests.matrix.features.g_logs import MLflow, Wandb

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def lose_the_primary(folder: Path, script: str, *args: str) -> None:
    """Train on two workers, of which the first is killed."""
    with job(folder, script, *args, "--pace", "0.2", workers=2) as run:
        run.ahead(8)
        run.kill("worker-0")
        run.wait_members(1, 60.0)
        run.finish()


def fine_tune(folder: Path, tracker: str) -> None:
    """A fine-tuning of 40 steps that reports to a tracker."""
    pytest.importorskip("transformers")
    arguments = json.dumps({"num_train_epochs": 8, "report_to": tracker})
    lose_the_primary(folder, "hf_train.py", "--arguments", arguments)


def test_tensorboard_of_transformers(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fine_tune(tmp_path, "tensorboard")
    (folder,) = (tmp_path / "trainer/runs").iterdir()
    found = events.EventAccumulator(str(folder)).Reload().Scalars("train/loss")
    check_steps({each.step for each in found})


def test_mlflow_of_transformers(tmp_path: Path, mlflow: Any) -> None:
    fine_tune(tmp_path, "mlflow")
    (run,) = mlflow.search_runs(output_format="list", search_all_experiments=True)
    points = mlflow.MlflowClient().get_metric_history(run.info.run_id, "loss")
    check_steps({point.step for point in points})


def test_wandb_of_transformers(tmp_path: Path, wandb: None) -> None:
    fine_tune(tmp_path, "wandb")
    check_steps({int(step) for step in Wandb().column(tmp_path, "train/loss", "train/global_step")})


@pytest.mark.parametrize("tracker", ["mlflow", "wandb"])
def test_trackers_of_accelerate(tracker: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    pytest.importorskip("accelerate")
    request.getfixturevalue(tracker)
    lose_the_primary(tmp_path, "accelerate_train.py", "--epochs", "8", "--track", tracker)
    kind: Any = MLflow() if tracker == "mlflow" else Wandb()
    check_steps(set(kind.read(tmp_path)))


def check_steps(found: set[int]) -> None:
    """What the killed one had not written yet may be missing, and nothing else."""
    assert max(found) == 40
    assert len(found - {0}) >= 36, sorted(found)


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")  # its database takes 10 s to be made
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    return found


@pytest.fixture
def wandb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    for name, value in {
        "MODE": "offline",
        "DIR": str(tmp_path),
        "_TRANSACTION_LOG_FLUSH_INTERVAL": "0.1",
    }.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
