"""A training whose last checkpoint cannot be written: its folder is gone by then."""

import shutil
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

import muster

STEPS = 5


def main() -> None:
    """Train, and write the model after the loop."""
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(TensorDataset(torch.randn(16, 4)), global_batch=16, steps=STEPS)
    ctx.checkpoint("saved", every=1000)
    for (x,) in ctx.steps():
        optimizer.zero_grad()
        ctx.backward(model(x).square().mean(1))
        optimizer.step()
        if ctx.step == STEPS - 1 and ctx.primary and ctx.checkpoints is not None:
            folder = Path(ctx.checkpoints.where)
            shutil.rmtree(folder)
            folder.write_text("in the way")
    if ctx.primary:
        torch.save(model.state_dict(), "model.pt")


main()
