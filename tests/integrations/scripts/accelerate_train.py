"""A training with Accelerate that tests drive; `--plain`: in one process, by Accelerate itself."""

import argparse
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

COUNT, BATCH = 60, 6


def main() -> None:
    """Train as told; the main process writes parameters and what it has measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--track", default="", help="mlflow or wandb")
    parser.add_argument("--plain", action="store_true")
    options = parser.parse_args()
    package = importlib.import_module("accelerate" if options.plain else "muster.accelerate")
    accelerator = package.Accelerator(
        cpu=True, gradient_accumulation_steps=2, log_with=options.track or None
    )
    if options.track:
        accelerator.init_trackers("muster")
    torch.manual_seed(3)
    x = torch.randn(COUNT, 6)
    data = TensorDataset(x, x[:, :3].argmax(1))
    model: Any = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule: Any = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    model, optimizer, loader, held_out, schedule = accelerator.prepare(
        model, optimizer, DataLoader(data, BATCH), DataLoader(TensorDataset(*data[:9]), 4), schedule
    )
    right = []
    ctx: Any = getattr(accelerator, "session", None)
    for _ in range(options.epochs) if options.plain else accelerator.epochs(options.epochs):
        model.train()
        for batch in loader:
            if not Path(options.release).is_file():
                time.sleep(options.pace)
            with accelerator.accumulate(model):
                accelerator.backward(cross_entropy(model(batch[0]), batch[1]))
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            if options.track and accelerator.sync_gradients and ctx.applied:
                accelerator.log({"loss": ctx.step_loss}, step=ctx.step + 1)
        model.eval()
        with torch.no_grad():
            pairs = [accelerator.gather_for_metrics((model(a).argmax(1), b)) for a, b in held_out]
        right.append(sum(int((found == wanted).sum()) for found, wanted in pairs))
    if accelerator.is_main_process:
        torch.save(accelerator.unwrap_model(model).state_dict(), options.out)
        Path(options.out).with_suffix(".json").write_text(json.dumps({"right": right}))


main()
