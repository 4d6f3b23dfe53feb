"""A training as Lightning's documentation has it: it resumes from its own checkpoints.

Nothing here knows of Muster. As a job with `elastic: restart` it is resized by a restart.
"""

import argparse
import os
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from words import CLASSES, LENGTH, WORDS, Sentences


class Sorter(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Embedding(WORDS, 8), nn.Flatten(), nn.Linear(8 * LENGTH, CLASSES))

    def training_step(self, batch: dict[str, Tensor], number: int) -> Tensor:
        return cross_entropy(self.net(batch["input_ids"]), batch["labels"])

    def validation_step(self, batch: dict[str, Tensor], number: int) -> None:
        loss = cross_entropy(self.net(batch["input_ids"]), batch["labels"])
        self.log("val_loss", loss, sync_dist=True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=1e-2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="out")
    asked = parser.parse_args()
    lightning.seed_everything(0)
    last = Path(asked.out) / "last.ckpt"
    trainer = lightning.Trainer(
        max_epochs=asked.epochs,
        accelerator="cpu",
        devices=int(os.environ.get("LOCAL_WORLD_SIZE", "1")),
        num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", "1")),
        callbacks=[ModelCheckpoint(asked.out, save_last=True)],
        logger=False,
        enable_progress_bar=False,
    )
    train, val = DataLoader(Sentences(512), 16, shuffle=True), DataLoader(Sentences(64), 16)
    if last.is_file() and trainer.is_global_zero:
        print(f"resuming from {last} with {trainer.world_size} workers")
    trainer.fit(Sorter(), train, val, ckpt_path=last if last.is_file() else None)
    if trainer.is_global_zero:
        loss = trainer.callback_metrics["val_loss"]
        print(f"final loss {loss:.4f} after {trainer.current_epoch} epochs")


if __name__ == "__main__":
    main()
