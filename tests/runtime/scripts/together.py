"""A training that evaluates, averages and stops, as tests tell it; each worker notes what it got."""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.runtime.scripts import tasks

COUNT = 50
"""Samples of the evaluation: their metric is their number, so that a lost or doubled one shows."""
TASK = os.environ.get("MUSTER_TASK", "alone")


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True, help="a held worker continues with this file")
    parser.add_argument("--form", default="epochs", help="epochs, head or tail: where it evaluates")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--hold", default="", help="TASK@STEP: hangs in that evaluation until killed")
    parser.add_argument("--stop", type=int, default=-1, help="stop after the evaluation at this step")
    parser.add_argument("--busy", default="", help="STEP=SECONDS: the primary is busy in this step")
    parser.add_argument(
        "--fail", default="", help="joiner: whoever joins later fails in its first step"
    )
    parser.add_argument("--checkpoint")
    return parser.parse_args()


options = parse()
folder = Path(options.out).parent
model, optimizer, data = tasks.make("cnn")
ctx = muster.init()
ctx.wrap(model, optimizer)
ctx.data(data, global_batch=tasks.BATCH, epochs=options.epochs)
if options.checkpoint:
    ctx.checkpoint(options.checkpoint, every=3)
noted = (folder / f"notes.{TASK}").open("a", buffering=1)


def metric(net: Any, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The sample's number, and whether the model is as it should be."""
    assert not net.training and not torch.is_grad_enabled()
    if options.hold == f"{TASK}@{ctx.step}":
        (folder / f"held.{TASK}").touch()
        while not Path(options.release).exists():
            time.sleep(0.01)
    return {"number": x[:, 0], "checksum": net.tally.sum().expand(len(x))}


def evaluate() -> None:
    """Evaluate, and note what came of it."""
    numbers = torch.utils.data.TensorDataset(torch.arange(COUNT, dtype=torch.float64)[:, None])
    found = ctx.evaluate(numbers, batch=4, metric=metric)
    mean = ctx.mean({"step": ctx.step}, n=2)
    counts = options.form != "tail" or ctx.applied  # else the model lacks a step that is redone
    noted.write(json.dumps([ctx.step, found, mean, ctx.workers, counts]) + "\n")
    assert model.training
    if 0 <= options.stop <= ctx.step and ctx.primary:
        ctx.stop()


def train(batch: Any) -> None:
    """One step."""
    time.sleep(options.pace if not Path(options.release).exists() else 0)
    print(f"step {ctx.step}, loss {ctx.loss:.3f}")  # a newcomer knows the last one, too
    if options.form == "head":
        evaluate()
    if options.fail == "joiner" and TASK not in ("worker-0", "worker-1"):
        raise KeyError(f"{TASK} lacks what the others have")
    optimizer.zero_grad()
    ctx.backward(tasks.losses(model, *batch))
    optimizer.step()
    step, _, seconds = options.busy.partition("=")
    if step and ctx.step == int(step) and ctx.primary:
        with ctx.busy():
            time.sleep(float(seconds))
    if options.form == "tail":
        evaluate()


if options.form == "epochs":
    for _ in ctx.epochs():
        for batch in ctx.steps():
            train(batch)
        evaluate()
else:
    for batch in ctx.steps():
        train(batch)
evaluate()
if ctx.primary:
    torch.save(model.state_dict(), options.out)
