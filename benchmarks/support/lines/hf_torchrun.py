"""The same under torchrun, elastic: `torchrun --nnodes=1:3 --max-restarts=3 --rdzv-backend=c10d ...`.

A change of workers, and every death, restarts all of them from the last checkpoint; what was trained
since is trained again. Samples follow the number of workers: those of a change are repeated or left
out.
"""

import argparse
import os
from pathlib import Path

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed
from transformers.trainer_utils import get_last_checkpoint


class Sentences:
    def __init__(self, count: int) -> None:
        self.words = torch.randint(3, 40, (count, 10), generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.words)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.words[index, 0] % 3}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8192)
    asked = parser.parse_args()
    set_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = BertConfig(vocab_size=40, intermediate_size=64, num_labels=3, **sizes)
    args = TrainingArguments(
        "out",
        num_train_epochs=3,
        per_device_train_batch_size=64 // int(os.environ["WORLD_SIZE"]),
        learning_rate=1e-3,
        report_to="none",
        use_cpu=True,
        save_steps=20,
        save_total_limit=2,
    )
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, args, train_dataset=Sentences(asked.samples))
    last = get_last_checkpoint("out") if Path("out").is_dir() else None
    result = trainer.train(resume_from_checkpoint=last)
    print(f"final loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
