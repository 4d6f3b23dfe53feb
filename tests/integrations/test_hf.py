"""`muster.hf.Trainer` trains as `transformers.Trainer` does in one process, with any workers."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

import transformers

import muster.hf
from muster.runtime.errors import BadTrainingError
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


def test_accumulated_means_are_the_mean_of_the_whole_step(tmp_path: Path) -> None:
    """Transformers adds them up, for a model that takes the number of items and ignores it."""
    given = {"gradient_accumulation_steps": 3, "per_device_train_batch_size": 5}
    here = elastic("bert", tmp_path, **given)
    there = plain("bert", tmp_path, per_device_train_batch_size=15)
    assert hf_task.losses(here) == pytest.approx(hf_task.losses(there), rel=1e-5)


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


def test_scaled_losses_overflow_on_all_workers_alike(tmp_path: Path) -> None:
    # On a CPU accelerate clips scaled gradients, so there is no clipping here.
    given = {"num_train_epochs": 10, "max_grad_norm": 0.0}
    arguments = ("--scaled", "--arguments", json.dumps(given), "--pace", "0.1")
    with job(tmp_path, "hf_train.py", *arguments, workers=2) as run:
        run.ahead(5)
        run.change(3)
        run.ahead(5)
        run.kill("worker-0")
        run.wait_members(2, 60.0)
        run.ahead(5)
        run.finish()
    there = hf_task.make_trainer(hf_task.scaled(transformers.Trainer), "bert", tmp_path / "p", **given)
    there.train()
    assert worst(torch.load(tmp_path / "out.pt"), hf_task.weights(there.model)) < CLOSE
    rates = [entry["learning_rate"] for entry in there.state.log_history if "loss" in entry]
    assert any(one == other for one, other in pairwise(rates)), "an overflow leaves out an update"
    ours = [entry["learning_rate"] for entry in logged(tmp_path) if "loss" in entry]
    assert ours == pytest.approx(rates)


@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_16_bits_are_taken_as_transformers_takes_them(kind: str, tmp_path: Path) -> None:
    given = {kind: True}
    here, there = elastic("bert", tmp_path, **given), plain("bert", tmp_path, **given)
    assert hf_task.losses(here) == pytest.approx(hf_task.losses(there), rel=1e-5)


def test_it_stops_early_where_transformers_does(tmp_path: Path) -> None:
    given = {
        "eval_strategy": "steps",
        "eval_steps": 2,
        "save_strategy": "steps",
        "save_steps": 2,
        "metric_for_best_model": "accuracy",
        "load_best_model_at_end": True,
        "save_total_limit": 1,
    }
    trainers = []
    for train, name in ((elastic, "here"), (plain, "there")):
        patience = transformers.EarlyStoppingCallback(early_stopping_patience=1)
        trainers.append(train("bert", tmp_path / name, callbacks=[patience], **given))
    here, there = trainers
    assert here.state.global_step == there.state.global_step < 15
    assert worst(hf_task.weights(here.model), hf_task.weights(there.model)) < CLOSE


@pytest.mark.parametrize("first", [plain, elastic])
def test_it_resumes_from_checkpoints_of_either_trainer(first: Any, tmp_path: Path) -> None:
    given = {"save_strategy": "steps", "save_steps": 4}
    whole = first("gpt2", tmp_path, **given)
    again = hf_task.make_trainer(muster.hf.Trainer, "gpt2", tmp_path, **given)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert again.state.global_step == whole.state.global_step
    assert worst(hf_task.weights(again.model), hf_task.weights(whole.model)) < CLOSE


def test_adapters_are_trained_and_the_rest_is_left_alone(tmp_path: Path) -> None:
    peft = pytest.importorskip("peft")
    trainers = []
    for train in (elastic, plain):
        config = peft.LoraConfig(r=2, target_modules=["c_attn"], lora_dropout=0.0)
        torch.manual_seed(5)
        model = peft.get_peft_model(hf_task.make_model("gpt2"), config)
        trainers.append(train("gpt2", tmp_path, model=model))
    here, there = (hf_task.weights(trainer.model) for trainer in trainers)
    assert worst(here, there) < CLOSE
    assert any("lora" in name for name in here)


def test_a_loss_that_is_no_mean_is_refused(tmp_path: Path) -> None:
    class Contrastive(muster.hf.Trainer):
        def compute_loss(self, model: Any, inputs: Any, **rest: Any) -> Any:
            found = model(**{k: v for k, v in inputs.items() if k != "labels"}).logits
            return torch.nn.functional.cross_entropy(found @ found.T, torch.arange(len(found)))

    trainer = hf_task.make_trainer(Contrastive, "bert", tmp_path)
    with pytest.raises(BadTrainingError, match="the loss is not a mean over samples or labels"):
        trainer.train()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"auto_find_batch_size": True}, "auto_find_batch_size"),
        ({"optim": "lomo"}, "updates in the backward pass"),
        ({"include_num_input_tokens_seen": "all"}, "include_num_input_tokens_seen"),
        ({"enable_jit_checkpoint": True}, "a job that is stopped saves its state"),
    ],
)
def test_what_cannot_be_elastic_is_refused(given: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(BadTrainingError, match=said):
        hf_task.make_trainer(muster.hf.Trainer, "bert", tmp_path, **given)


def test_a_stream_is_refused_with_what_to_pass_instead(tmp_path: Path) -> None:
    trainer = hf_task.make_trainer(muster.hf.Trainer, "bert", tmp_path, max_steps=3)
    trainer.train_dataset = iter(trainer.train_dataset)
    with pytest.raises(BadTrainingError, match="has no length: pass a dataset with len"):
        trainer.train()
