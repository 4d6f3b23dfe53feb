"""A small training that writes down every step it does; see --help.

All samples are in every step, and the descent is plain: the loss falls with each step, unless some of
the training was lost.
"""

import argparse
import json
import os
import sys
import time
from math import isnan
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.live.scripts.uncompiled import leave_compiler_out

SAMPLES = 16
SLOWER = 20
"""How much slower the last part is: a test that is held up does not find the training over."""


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=240)
    parser.add_argument("--pace", type=float, default=0.012, help="seconds that a sample takes")
    parser.add_argument("--last", type=float, default=0.3, help="part of it that is slower")
    parser.add_argument("--record", default="steps.jsonl", help="a line for each step of each worker")
    parser.add_argument("--release", default="go", help="a file that ends the pace")
    parser.add_argument("--inputs", type=int, default=4, help="parameters, which workers synchronise")
    return parser.parse_args()


class Recorder:
    """Writes a line for each step that counts: one whose group broke is done again."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._last = -1

    def __call__(self, ctx: Any) -> None:
        """A step is over."""
        if ctx.step == self._last:
            return
        self._last = ctx.step
        line = {
            "task": os.environ["MUSTER_TASK"],
            "pid": os.getpid(),
            "step": ctx.step,
            "loss": None if isnan(ctx.loss) else ctx.loss,
            "primary": ctx.primary,
        }
        os.write(self._file, f"{json.dumps(line)}\n".encode())


def main() -> None:
    """Train as told."""
    leave_compiler_out()
    asked = parse()
    torch.manual_seed(0)
    inputs = torch.randn(SAMPLES, asked.inputs)
    data = TensorDataset(inputs, inputs[:, :4] @ torch.arange(1.0, 5.0).reshape(-1, 1))
    model = nn.Linear(asked.inputs, 1)
    place = {"step": 0}
    recorder = Recorder(asked.record)

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        if not Path(asked.release).exists():
            late = place["step"] > (1 - asked.last) * asked.steps
            time.sleep(len(x) * asked.pace * (SLOWER if late else 1))
        return (net(x) - y).square().mean(1)

    def done(ctx: Any) -> None:
        place["step"] = ctx.step
        recorder(ctx)

    muster.Training(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.004 / asked.inputs),
        loss=losses,
        dataset=data,
        global_batch=SAMPLES,
        steps=asked.steps,
        on_step=done,
    ).run()


main()
