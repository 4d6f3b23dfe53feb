"""The same on workers that come and go, with Muster.

A worker that dies costs the step it was in; a change of workers stops nobody. Samples are those of one
process, in its order.
"""

import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification, TrainingArguments, set_seed

from muster.hf import Trainer


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
        per_device_train_batch_size=64,
        learning_rate=1e-3,
        report_to="none",
        use_cpu=True,
    )
    model = BertForSequenceClassification(config)
    trainer = Trainer(model, args, train_dataset=Sentences(asked.samples))
    result = trainer.train()
    print(f"final loss {result.training_loss:.4f}")


if __name__ == "__main__":
    main()
