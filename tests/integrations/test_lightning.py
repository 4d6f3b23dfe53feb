"""Lightning's loops on workers that come and go: parameters, hooks and validation as in one process."""

import json
import subprocess
import sys
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("lightning")

import lightning
from torch.utils.data import DataLoader, TensorDataset

from muster.lightning import MusterStrategy
from muster.lightning.loader import parts_of
from muster.runtime.errors import BadTrainingError
from tests.integrations.jobs import CLOSE, SCRIPTS, job
from tests.runtime.scripts.tasks import worst

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
"""Warnings of Lightning are its own."""

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


def test_batches_are_accumulated_over_resizes_and_kills(tmp_path: Path) -> None:
    words = ("--epochs", "12", "--accumulate", "5")
    there = plain(tmp_path / "plain", "lightning_train.py", *words)
    with job(tmp_path, "lightning_train.py", *words, "--pace", "0.05", workers=2) as run:
        run.ahead(2)
        run.change(3)
        run.ahead(2)
        run.kill("worker-0")
        run.wait_members(2, 60.0)
        run.ahead(2)
        run.finish()
    here = json.loads((tmp_path / "out.json").read_text())
    assert worst(torch.load(tmp_path / "out.pt"), torch.load(tmp_path / "plain/out.pt")) < CLOSE
    assert here["seen"] == there["seen"], "12 batches an epoch, 5 or 2 of them in a step"


def test_what_a_redone_step_logs_counts_once(tmp_path: Path) -> None:
    words = ("--epochs", "12", "--accumulate", "2", "--pace", "0.1")
    with job(tmp_path, "lightning_train.py", *words, workers=3) as run:
        for lost in ("worker-1", "worker-2"):
            run.ahead(4)
            run.kill(lost)
            run.wait_members(2 if lost == "worker-1" else 1, 60.0)
        run.finish()
    here = json.loads((tmp_path / "out.json").read_text())
    assert here["calls"] > 12 * 12, "steps were redone"
    assert here["logged"] == [[12.0, 12.0]] * 12, "12 batches an epoch"


def test_scaled_losses_overflow_on_all_workers_alike(tmp_path: Path) -> None:
    words = ("--epochs", str(EPOCHS), "--scaled")
    there = plain(tmp_path / "plain", "lightning_train.py", *words)
    with job(tmp_path, "lightning_train.py", *words, "--pace", "0.2") as run:
        run.ahead(5)
        run.change(3)
        run.ahead(5)
        run.kill("worker-0")
        run.wait_members(2, 60.0)
        run.ahead(5)
        run.finish()
    here = json.loads((tmp_path / "out.json").read_text())
    assert worst(torch.load(tmp_path / "out.pt"), torch.load(tmp_path / "plain/out.pt")) < CLOSE
    assert here["seen"] == there["seen"]
    assert here["scale"] == there["scale"] < 8.0 * 2 ** (EPOCHS * 5 // 3), "some have overflowed"


def fit(folder: Path, module: Any = None, **given: Any) -> Any:
    """Train a little in this process."""
    data = TensorDataset(torch.randn(24, 6), torch.randint(0, 3, (24,)))
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", strategy=MusterStrategy(), default_root_dir=folder,
        enable_checkpointing=False, **quiet, **given,
    )  # fmt: skip
    module = module or Plainest()
    trainer.fit(module, DataLoader(data, 12))
    return module


class Plainest(lightning.LightningModule):
    """One layer, and what its hooks saw."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Linear(6, 3)
        self.hooks: list[str] = []

    def training_step(self, batch: Any, number: int) -> Any:
        return torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def on_before_backward(self, loss: Any) -> None:
        self.hooks.append("before")

    def on_after_backward(self) -> None:
        self.hooks.append("after")

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        self.hooks.append("step")

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_every_hook_of_a_step_is_called(tmp_path: Path) -> None:
    assert fit(tmp_path).hooks == ["before", "after", "step"] * 2


class Manual(Plainest):
    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False


@pytest.mark.parametrize(
    ("module", "given", "said"),
    [
        (Manual, {}, "write a loop of your own with muster.init(), which takes several"),
        (Plainest, {"precision": "16-true"}, 'use "16-mixed" or "bf16-mixed"'),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(
    module: Any, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    with pytest.raises(BadTrainingError) as found:
        fit(tmp_path, module(), **given)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5).filter(sum), st.integers(1, 7))
def test_workers_have_every_sample_of_every_batch(shares: list[int], size: int) -> None:
    firsts, total = list(accumulate(shares, initial=0)), sum(shares)
    found = [parts_of(f, n, total, size) for f, n in zip(firsts, shares, strict=False)]
    for parts in zip(*found, strict=True):
        assert len({part.of for part in parts}) == 1
        assert sum(part.rows for part in parts) == parts[0].of <= size
