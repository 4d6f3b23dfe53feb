"""A training that tests drive: --model cnn|transformer --epochs N --out FILE [--loop] [--pace SECONDS]."""

import argparse
import os
import time

import torch
from tests.runtime.scripts import tasks

import muster


def main() -> None:
    """Train as told and write the final parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", required=True)
    parser.add_argument("--loop", action="store_true", help="a loop of its own instead of Training")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--slow", default="", help="task=factor,...: seconds per 100 samples")
    parser.add_argument("--checkpoint")
    options = parser.parse_args()
    model, optimizer, data = tasks.make(options.model)
    slow = dict(part.split("=") for part in options.slow.split(",") if part)
    each = float(slow.get(os.environ.get("MUSTER_TASK", ""), 0.0)) / 100

    def losses(net: torch.nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        time.sleep(options.pace + each * len(batch[0]))
        return tasks.losses(net, *batch)

    if options.loop:
        ctx = muster.init()
        ctx.wrap(model, optimizer)
        ctx.data(data, global_batch=tasks.BATCH, epochs=options.epochs)
        if options.checkpoint:
            ctx.checkpoint(options.checkpoint, every=5)
        for batch in ctx.steps():
            optimizer.zero_grad()
            ctx.backward(losses(model, *batch))
            optimizer.step()
    else:
        training = muster.Training(
            model=model,
            optimizer=optimizer,
            loss=losses,
            dataset=data,
            global_batch=tasks.BATCH,
            epochs=options.epochs,
            checkpoint=options.checkpoint,
            checkpoint_every=5,
        )
        ctx = training.run()
    if ctx.primary:
        torch.save(model.state_dict(), options.out)


main()
