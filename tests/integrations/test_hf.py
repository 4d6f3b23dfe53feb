"""`muster.hf.Trainer` trains as `transformers.Trainer` does in one process, with any workers."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import muster.hf
from tests.integrations.jobs import CLOSE, job, logged
from tests.integrations.scripts import hf_task
from tests.runtime.scripts.tasks import worst

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
"""Loading transformers takes as long as many tests; its warnings are its own."""


def plain(name: str, folder: Path, **given: Any) -> Any:
    """The same training by transformers itself, done."""
    trainer = hf_task.make_trainer(transformers.Trainer, name, folder, **given)
    trainer.train()
    return trainer


def elastic(name: str, folder: Path, **given: Any) -> Any:
    """The same by ours, alone, done."""
    trainer = hf_task.make_trainer(muster.hf.Trainer, name, folder, **given)
    trainer.train()
    return trainer


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_alone_it_logs_the_same_losses(name: str, tmp_path: Path) -> None:
    given = {"eval_strategy": "epoch", "max_grad_norm": 0.3}
    here, there = elastic(name, tmp_path, **given), plain(name, tmp_path, **given)
    told = [
        {k: v for k, v in entry.items() if "second" not in k and "runtime" not in k}
        for entry in there.state.log_history
    ]
    ours = [
        {k: v for k, v in entry.items() if "second" not in k and "runtime" not in k}
        for entry in here.state.log_history
    ]
    assert [set(entry) for entry in ours] == [set(entry) for entry in told]
    for mine, theirs in zip(ours, told, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-5)


def test_a_step_that_is_accumulated_is_the_same_step(tmp_path: Path) -> None:
    given = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 5}
    here, there = elastic("gpt2", tmp_path, **given), plain("gpt2", tmp_path, **given)
    assert hf_task.losses(here) == pytest.approx(hf_task.losses(there), rel=1e-5)
    assert worst(hf_task.weights(here.model), hf_task.weights(there.model)) < CLOSE


def test_smoothed_labels_count_tokens_too(tmp_path: Path) -> None:
    given = {"label_smoothing_factor": 0.1}
    here, there = elastic("gpt2", tmp_path, **given), plain("gpt2", tmp_path, **given)
    assert worst(hf_task.weights(here.model), hf_task.weights(there.model)) < CLOSE


@pytest.mark.parametrize("name", ["bert", "gpt2"])
def test_it_is_resized_and_loses_workers_without_a_trace(name: str, tmp_path: Path) -> None:
    given = {"num_train_epochs": 20, "eval_strategy": "steps", "eval_steps": 10}
    arguments = ("--model", name, "--arguments", json.dumps(given), "--pace", "0.2")
    with job(tmp_path, "hf_train.py", *arguments) as run:
        run.ahead(5)
        run.change(3)
        run.ahead(5)
        run.kill("worker-0")  # the primary: another one logs from here on
        run.wait_members(2, 60.0)
        run.ahead(5)
        run.finish()
    there = plain(name, tmp_path / "plain", **given)
    assert worst(torch.load(tmp_path / "out.pt"), hf_task.weights(there.model)) < CLOSE
    steps = [entry["step"] for entry in logged(tmp_path) if "loss" in entry]
    assert steps == list(range(1, 101))
