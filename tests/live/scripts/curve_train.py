"""A real training whose losses are given: those of a file, one for each epoch.

Before the first step of the epochs named by --gates it waits for the file `go-EPOCH`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.live.scripts.uncompiled import leave_compiler_out


def main() -> None:
    """Train to the end."""
    leave_compiler_out()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("losses", type=Path)
    parser.add_argument("--gates", type=int, nargs="*", default=[])
    parser.add_argument("--epochs", type=int)
    asked = parser.parse_args()
    known: list[float] = json.loads(asked.losses.read_text())
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(TensorDataset(torch.ones(8, 1)), 4, epochs=asked.epochs)
    for (batch,) in ctx.steps():
        while ctx.epoch in asked.gates and not Path(f"go-{ctx.epoch}").exists():
            time.sleep(0.02)
        optimizer.zero_grad()
        loss: Tensor = 0 * model(batch).squeeze(1) + known[min(ctx.epoch, len(known) - 1)]
        ctx.backward(loss)
        optimizer.step()
    if ctx.primary:
        print(f"ended after {ctx.epoch} epochs")


main()
