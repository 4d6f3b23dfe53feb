"""A training with much to synchronise, whose computing is emulated: plan and links set its pace.

Writes the seconds of a step, the mean over those that count, to a file.
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


def main() -> None:
    """Train as told."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--skip", type=int, default=3, help="first steps, which do not count")
    parser.add_argument("--width", type=int, required=True, help="features of its layers")
    parser.add_argument("--depth", type=int, default=2, help="its large layers")
    parser.add_argument("--samples", type=int, default=24, help="of a step")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a sample takes")
    parser.add_argument("--figure", type=Path, required=True, help="where the figure goes")
    asked = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(asked.samples, asked.width)
    large = [nn.Linear(asked.width, asked.width) for _ in range(asked.depth)]
    model = nn.Sequential(*large, nn.Linear(asked.width, 1))
    began = [0.0]

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
        global_batch=asked.samples,
        steps=asked.steps,
        on_step=done,
    ).run()


main()
