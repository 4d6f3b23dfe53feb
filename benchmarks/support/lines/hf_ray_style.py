"""The same with Ray Train's elastic training, on a Ray cluster.

A change of workers restarts all of them from the last reported checkpoint; what was trained since is
trained again. Samples follow the number of workers: those of a change are repeated or left out.
"""

import argparse
from pathlib import Path
from typing import Any

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from ray.train.torch import TorchTrainer
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed


class Sentences:
    def __init__(self, count: int) -> None:
        self.words = torch.randint(3, 40, (count, 10), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index, 0] % 3}


def train(asked: dict[str, Any]) -> None:
    set_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=40, intermediate_size=64, num_labels=3, **sizes)
    args = TrainingArguments(
        "out",
        num_train_epochs=3,
        per_device_train_batch_size=64 // ray.train.get_context().get_world_size(),
        learning_rate=1e-3,
        report_to="none",
        use_cpu=True,
        save_steps=20,
        save_total_limit=2,
    )
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, args, train_dataset=Sentences(asked["samples"]))
    trainer.add_callback(RayTrainReportCallback())
    trainer = prepare_trainer(trainer)
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            last = Path(folder) / RayTrainReportCallback.CHECKPOINT_NAME
            trainer.train(resume_from_checkpoint=str(last))
    else:
        trainer.train()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    trainer = TorchTrainer(
        train,
        train_loop_config={"samples": asked.samples},
        scaling_config=ScalingConfig(num_workers=(1, 3), elastic_resize_monitor_interval_s=30),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    )
    result = trainer.fit()
    print(f"final loss {result.metrics['loss']:.4f}")


if __name__ == "__main__":
    main()
