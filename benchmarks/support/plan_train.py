"""A training whose computing is emulated: how long a step takes is up to the plan and the links.

Writes the seconds of a step, the mean over its last part, to a file.
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import muster

SAMPLES = 48


def main() -> None:
    """Train as told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--skip", type=int, required=True, help="steps that do not count")
    parser.add_argument("--width", type=int, required=True, help="features of its two large layers")
    parser.add_argument("--pace", type=float, required=True, help="seconds that a sample takes")
    parser.add_argument("--figure", type=Path, required=True, help="where the figure goes")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    width, began = asked.width, [0.0]
    inputs = torch.randn(SAMPLES, width)
    model = nn.Sequential(nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, 1))

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        time.sleep(len(x) * asked.pace)
        return (net(x) - y).square().mean(1)

    def done(ctx: Any) -> None:
        if ctx.step == asked.skip:
            began[0] = time.monotonic()
        elif ctx.step == asked.steps - 1 and began[0] and os.environ["MUSTER_TASK"] == "worker-0":
            seconds = (time.monotonic() - began[0]) / (ctx.step - asked.skip)
            asked.figure.write_text(f"{seconds}", encoding="utf-8")

    muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-4),
        loss=losses,
        dataset=TensorDataset(inputs, inputs[:, :1]),
        global_batch=SAMPLES,
        steps=asked.steps,
        on_step=done,
    ).run()


main()
