"""A training that tests drive: declared, or with --loop a loop of its own; see --help."""

import argparse
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from muster.runtime.members.membership import Membership
from muster.runtime.state import transfer
from tests.runtime.scripts import tasks


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="cnn", help="cnn or transformer")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", required=True, help="file for the final parameters")
    parser.add_argument("--loop", action="store_true", help="a loop of its own instead of Training")
    parser.add_argument("--pace", type=float, default=0.0, help="seconds that a step takes at least")
    parser.add_argument("--release", default="", help="once this file is there, --pace counts no more")
    parser.add_argument("--slow", default="", help="task=seconds,...: of 100 samples")
    parser.add_argument("--slow-state", type=float, default=0.0, help="seconds to send a tensor")
    parser.add_argument("--hang", default="", help="once the file RELEASE.TASK is there, sleep so long")
    parser.add_argument("--dies-going-on", default="", help="task that ends when others have left")
    parser.add_argument("--checkpoint")
    return parser.parse_args()


def send_slowly(seconds: float) -> None:
    """Let the transfer of a tensor to a joiner take a while, so that there is time to disturb it."""
    names = vars(transfer)
    send = names["send_tensor"]

    def slow(*args: Any) -> None:
        time.sleep(seconds)
        send(*args)

    names["send_tensor"] = slow


def die_going_on(task: str) -> None:
    """Kill a task when it enters a formation that others have left."""
    if os.environ.get("MUSTER_TASK") == task:
        Membership._go_on = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]


def main() -> None:
    """Train as told and write the final parameters."""
    options = parse()
    model, optimizer, data = tasks.make(options.model)
    slow = dict(part.split("=") for part in options.slow.split(",") if part)
    if options.slow_state:
        send_slowly(options.slow_state)
    die_going_on(options.dies_going_on)

    task = os.environ.get("MUSTER_TASK", "")
    each = float(slow.get(task, 0.0)) / 100

    def losses(net: torch.nn.Module, *batch: torch.Tensor) -> torch.Tensor:
        held = options.pace and not Path(options.release).is_file()
        time.sleep((options.pace if held else 0.0) + each * len(batch[0]))
        if options.hang and Path(f"{options.release}.{task}").is_file():
            time.sleep(float(options.hang))
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
