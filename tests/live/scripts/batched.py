"""A training whose steps take as long for any batch, and which writes down the samples of each."""

import json
import os
import sys
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.live.scripts.uncompiled import leave_compiler_out

SAMPLES, OWN, STEP_S = 2048, 8, 0.04
"""Samples of an epoch, the user's own batch, and s of a step."""


def main() -> None:
    """Train until the file "go" is there, and then to the end of the epoch."""
    leave_compiler_out()
    torch.manual_seed(0)
    x = torch.randn(SAMPLES, 50)
    data = TensorDataset(x, torch.randn(SAMPLES), torch.arange(SAMPLES))
    model = nn.Linear(50, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(data, global_batch=OWN, epochs=1000)
    record = os.open("samples.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for epoch in ctx.epochs():
        if Path("go").exists():
            ctx.stop()
        for inputs, targets, ids in ctx.steps():
            if not Path("go").exists():
                time.sleep(STEP_S)
            optimizer.zero_grad()
            ctx.backward((model(inputs).squeeze(1) - targets).square())
            optimizer.step()
            if ctx.applied and ctx.share:
                line = {"epoch": epoch, "step": ctx.step, "batch": ctx.batch, "ids": ids.tolist()}
                os.write(record, f"{json.dumps(line)}\n".encode())


main()
