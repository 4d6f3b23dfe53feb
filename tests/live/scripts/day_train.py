"""A training of a day's replay: it writes down every step, and keeps a checkpoint every few steps."""

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import muster

SAMPLES, INPUTS = 12, 3


def main() -> None:
    """Train until the steps are done; the file `go` ends the pace."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--pace", type=float, default=0.01, help="seconds that a sample takes")
    asked = parser.parse_args()
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, INPUTS)
    data = TensorDataset(inputs, inputs.sum(1, keepdim=True))
    model = nn.Linear(INPUTS, 1)
    record = os.open("steps.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if not Path("go").exists():
            time.sleep(len(x) * asked.pace)
        return (net(x) - y).square().mean(1)

    def done(ctx: Any) -> None:
        line = json.dumps({"pid": os.getpid(), "step": ctx.step, "primary": ctx.primary})
        os.write(record, f"{line}\n".encode())

    muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.001),
        loss=losses,
        dataset=data,
        global_batch=SAMPLES,
        steps=asked.steps,
        checkpoint="day",
        checkpoint_every=asked.every,
        on_step=done,
    ).run()


main()
