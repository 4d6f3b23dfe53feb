"""A training as Accelerate's documentation has it: it resumes from its own checkpoints.

Nothing here knows of Muster. As a job with `elastic: restart` it is resized by a restart.
"""

import argparse
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader
from words import CLASSES, LENGTH, WORDS, Sentences


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--out", default="out")
    asked = parser.parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(0)
    model = nn.Sequential(nn.Embedding(WORDS, 8), nn.Flatten(), nn.Linear(8 * LENGTH, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    loader = DataLoader(Sentences(512), batch_size=16, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    saved, first = sorted(Path(asked.out).glob("epoch-*")), 0
    if saved:
        accelerator.print(f"resuming from {saved[-1]} with {accelerator.num_processes} workers")
        accelerator.load_state(str(saved[-1]))
        first = int(saved[-1].name.removeprefix("epoch-"))
    for epoch in range(first, asked.epochs):
        for batch in loader:
            loss = cross_entropy(model(batch["input_ids"]), batch["labels"])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        # Under another name until it is whole: a worker may be stopped at any time.
        accelerator.save_state(f"{asked.out}/saving")
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            Path(f"{asked.out}/saving").rename(f"{asked.out}/epoch-{epoch + 1:03}")
    accelerator.print(f"final loss {loss.item():.4f} after {asked.epochs} epochs")


if __name__ == "__main__":
    main()
