"""A fine-tuning as transformers' documentation has it: it resumes from its own checkpoints.

Nothing here knows of Muster. As a job with `elastic: restart` it is resized by a restart.
"""

import argparse
from pathlib import Path

from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)
from transformers.trainer_utils import get_last_checkpoint
from words import CLASSES, WORDS, Sentences


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", default="out")
    asked = parser.parse_args()
    set_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = BertForSequenceClassification(
        BertConfig(vocab_size=WORDS, intermediate_size=64, num_labels=CLASSES, **sizes)
    )
    args = TrainingArguments(
        asked.out,
        max_steps=asked.steps,
        per_device_train_batch_size=16,
        learning_rate=1e-3,
        save_steps=20,
        save_total_limit=2,
        logging_steps=20,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(model, args, train_dataset=Sentences(512), eval_dataset=Sentences(64))
    found = get_last_checkpoint(asked.out) if Path(asked.out).is_dir() else None
    if found:
        print(f"resuming from {found} with {args.world_size} workers")
    trainer.train(resume_from_checkpoint=found)
    if trainer.is_world_process_zero():
        print(
            f"final loss {trainer.evaluate()['eval_loss']:.4f} after {trainer.state.global_step} steps"
        )


if __name__ == "__main__":
    main()
