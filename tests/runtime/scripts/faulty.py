"""A training with a fault of the user's at its third step; what was trained by then is written."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.runtime.scripts import tasks

AT = 2
"""Steps that are done before the fault shows."""


class Steps:
    """Counts what the optimiser did: the place of the fault."""

    def __init__(self, optimizer: Any) -> None:
        self.done = 0
        optimizer.register_step_post_hook(self._count)

    def _count(self, *_: Any) -> None:
        self.done += 1

    @property
    def due(self) -> bool:
        return self.done == AT


class Items(torch.utils.data.Dataset[Any]):
    """The samples, of which one cannot be read when its time has come."""

    def __init__(self, data: Any, steps: Steps) -> None:
        self._data, self._steps = data, steps

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        if self._steps.done >= AT - 1 and index in range(0, 96, 4):
            raise OSError(f"sample {index} is not readable")
        return self._data[index]


def loss_of(fault: str, steps: Steps) -> Callable[..., Tensor]:
    """A loss function that is right until the fault is due."""
    kind, _, fits = fault.partition("=")
    # "fits=8": nowhere more than 8 samples; "tight=8": not on worker-1.
    limited = kind == "fits" or (kind == "tight" and os.environ["MUSTER_TASK"] == "worker-1")

    def loss(model: nn.Module, *batch: Tensor) -> Tensor:
        right = tasks.losses(model, *batch)
        if right.is_meta:
            return right
        if limited and len(right) > int(fits):
            raise torch.OutOfMemoryError("out of memory, says the test")
        if steps.due and fault == "mean":
            return right.mean()
        if steps.due and fault == "shape":
            return torch.cat([right, right])
        if steps.due and fault == "columns":
            return right[:, None].expand(-1, 2)
        if steps.due and fault == "nan":
            return right * float("nan")
        if steps.due and fault == "raise":
            raise KeyError("the user's own mistake")
        return right

    return loss


def train(options: argparse.Namespace, model: Any, optimizer: Any, data: Any) -> None:
    """The declared form, with what is wrong in the declaration."""
    fault, steps = options.fault, Steps(optimizer)
    if fault in ("unused", "allowed"):
        model.spare = nn.Linear(2, 2)
        optimizer.add_param_group({"params": list(model.spare.parameters())})
    if fault == "other":
        optimizer = torch.optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1)
    training = muster.Training(
        model=model,
        optimizer=optimizer,
        loss=loss_of(fault, steps),
        dataset=Items(data, steps) if fault == "item" else data,
        global_batch=1000 if fault == "small" else tasks.BATCH,
        epochs=options.epochs,
        checkpoint=options.checkpoint,
        checkpoint_every=1,
        allow_unused=fault == "allowed",
    )
    if training.run().primary:
        torch.save(model.state_dict(), options.out)


def loop(options: argparse.Namespace, model: Any, optimizer: Any, data: Any) -> None:
    """The other form, with a line too few or too many."""
    fault, steps = options.fault, Steps(optimizer)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    ctx.data(data, global_batch=tasks.BATCH, epochs=options.epochs)
    for batch in ctx.steps():
        losses = tasks.losses(model, *batch)
        due = steps.due
        if not (due and fault == "no-backward"):
            ctx.backward(losses)
        if due and fault == "backward-twice":
            ctx.backward(losses)
        if not (due and fault in ("no-step", "no-backward")):
            optimizer.step()


def main() -> None:
    """Train, and write what the parameters were when the fault showed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fault", required=True)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release")
    parser.add_argument("--checkpoint")
    options = parser.parse_args()
    model, optimizer, data = tasks.make("cnn")
    form = loop if options.fault in ("no-backward", "backward-twice", "no-step") else train
    try:
        form(options, model, optimizer, data)
    except Exception:
        # The other's error may end this process while it writes.
        file = Path(f"{options.out}.{os.environ['MUSTER_TASK']}")
        torch.save(model.state_dict(), file.with_name(f"unfinished.{file.name}"))
        file.with_name(f"unfinished.{file.name}").rename(file)
        raise


main()
