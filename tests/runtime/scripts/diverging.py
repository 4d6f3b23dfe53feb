"""A training in which one worker does something that the others do not; see --how."""

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.runtime.scripts import tasks

AT = 6
"""The step after which it does."""


def diverge(how: str, model: Any, optimizer: Any) -> None:
    """Do what only one worker does."""
    if how == "lr":
        optimizer.param_groups[1]["lr"] *= 0.5
    else:
        with torch.no_grad():
            model.model.out.weight.add_(0.1)


def main() -> None:
    """Train as told and write the final parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--how", default="")
    parser.add_argument("--who", default="worker-0")
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--checkpoint")
    options = parser.parse_args()
    model, optimizer, data = tasks.make("cnn")
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(data, global_batch=tasks.BATCH, epochs=100_000)
    if options.checkpoint:
        ctx.checkpoint(options.checkpoint, every=5)
    if options.how == "writer" and ctx.primary:
        ctx.keep(extra=torch.nn.Linear(1, 1))
    mine = os.environ["MUSTER_TASK"] == options.who
    for batch in ctx.steps():
        if not Path(options.release).is_file():
            time.sleep(options.pace)
        if mine and ctx.step == AT and options.how in ("lr", "parameter"):
            diverge(options.how, model, optimizer)
        optimizer.zero_grad()
        ctx.backward(tasks.losses(model, *batch))
        optimizer.step()
    if ctx.primary:
        torch.save(model.state_dict(), options.out)


main()
