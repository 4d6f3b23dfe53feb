"""Lightning's loops on workers that come and go: parameters, hooks and validation as in one process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

from tests.integrations.jobs import CLOSE, SCRIPTS, job
from tests.runtime.scripts.tasks import worst

pytestmark = pytest.mark.slow

EPOCHS = 20


def plain(folder: Path, script: str, *args: str) -> dict[str, Any]:
    """The same training in one process, by the framework itself: what it has written."""
    folder.mkdir()
    where = ("--out", str(folder / "out.pt"), "--release", str(folder))
    command = [sys.executable, str(SCRIPTS / script), "--plain", *where, *args]
    subprocess.run(command, check=True, timeout=300, capture_output=True)
    return dict(json.loads((folder / "out.json").read_text()))


def test_it_is_resized_and_loses_workers_without_a_trace(tmp_path: Path) -> None:
    there = plain(tmp_path / "plain", "lightning_train.py", "--epochs", str(EPOCHS))
    with job(tmp_path, "lightning_train.py", "--epochs", str(EPOCHS), "--pace", "0.2") as run:
        run.ahead(5)
        run.change(3)
        run.ahead(5)
        run.kill("worker-0")  # the primary: another one logs and saves from here on
        run.wait_members(2, 60.0)
        run.ahead(5)
        run.finish()
    here = json.loads((tmp_path / "out.json").read_text())
    assert worst(torch.load(tmp_path / "out.pt"), torch.load(tmp_path / "plain/out.pt")) < CLOSE
    assert here["seen"] == there["seen"], "every batch once, under the number it has in one process"
    assert here["validated"] == pytest.approx(there["validated"], rel=1e-4)
    assert list((tmp_path / "lightning").glob("*.ckpt"))
