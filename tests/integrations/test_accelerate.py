"""Accelerate's loops on workers that come and go: parameters and metrics as in one process."""

import json
from pathlib import Path

import pytest
import torch

pytest.importorskip("accelerate")

from tests.integrations.jobs import CLOSE, job
from tests.integrations.test_lightning import plain
from tests.runtime.scripts.tasks import worst

pytestmark = pytest.mark.slow

EPOCHS = 20


def test_it_is_resized_and_loses_workers_without_a_trace(tmp_path: Path) -> None:
    there = plain(tmp_path / "plain", "accelerate_train.py", "--epochs", str(EPOCHS))
    with job(tmp_path, "accelerate_train.py", "--epochs", str(EPOCHS), "--pace", "0.2") as run:
        run.ahead(5)
        run.change(3)
        run.ahead(5)
        run.kill("worker-1")
        run.wait_members(2, 60.0)
        run.ahead(5)
        run.finish()
    here = json.loads((tmp_path / "out.json").read_text())
    assert worst(torch.load(tmp_path / "out.pt"), torch.load(tmp_path / "plain/out.pt")) < CLOSE
    assert here["right"] == there["right"]
