"""Small trainings of transformers, made from configurations: the same for any class of trainer."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    TrainingArguments,
    set_seed,
)

COUNT, WORDS, LENGTH, CLASSES = 60, 40, 10, 3


class Sentences(Dataset[dict[str, Tensor]]):
    """Random words; what is asked of the model, and how much of a row counts, differs by row."""

    def __init__(self, model: str, count: int = COUNT) -> None:
        generator = torch.Generator().manual_seed(1)
        self._words = torch.randint(3, WORDS, (count, LENGTH), generator=generator)
        self._lengths = torch.randint(3, LENGTH + 1, (count,), generator=generator)
        self._causal = model == "gpt2"

    def __len__(self) -> int:
        return len(self._words)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        words = self._words[index]
        mask = (torch.arange(LENGTH) < self._lengths[index]).long()
        labels = torch.where(mask.bool(), words, -100) if self._causal else words[0] % CLASSES
        return {"input_ids": words, "attention_mask": mask, "labels": labels}


def make_model(name: str) -> Any:
    """A model without dropout, the same every time."""
    set_seed(3)
    if name == "gpt2":
        sizes = {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": LENGTH, "vocab_size": WORDS}
        quiet = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
        return GPT2LMHeadModel(GPT2Config(**sizes, **quiet))
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=WORDS,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            num_labels=CLASSES,
        )
    )


def make_trainer(kind: Any, name: str, folder: Path | str, **given: Any) -> Any:
    """A trainer of a class for a model's name; arguments of `TrainingArguments` are given."""
    more = {key: given.pop(key) for key in ("callbacks", "model") if key in given}
    options = {
        "per_device_train_batch_size": 12,
        "num_train_epochs": 3,
        "learning_rate": 0.1,
        "optim": "sgd",
        "warmup_steps": 3,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
        **given,
    }
    return kind(
        more.pop("model", None) or make_model(name),
        TrainingArguments(str(folder), **options),
        train_dataset=Sentences(name),
        eval_dataset=Sentences(name, 20),
        compute_metrics=accuracy if name == "bert" else None,
        **more,
    )


def scaled(kind: Any) -> Any:
    """A class of trainers with a scaler of losses that overflows now and then, on a CPU as well."""

    class Scaled(kind):
        def create_accelerator_and_postprocess(self) -> None:
            super().create_accelerator_and_postprocess()
            self.accelerator.scaler = torch.amp.GradScaler(
                "cpu", init_scale=2.0**124, growth_interval=3
            )

    return Scaled


def accuracy(found: Any) -> dict[str, float]:
    """How many answers are right."""
    return {"accuracy": float((found.predictions.argmax(-1) == found.label_ids).mean())}


def losses(trainer: Any) -> list[float]:
    """What it has logged, step by step."""
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]


def weights(model: Any) -> dict[str, Tensor]:
    """A model's parameters."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
