"""A training in float64 whose batch changes by order, and the same in plain torch."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from muster.runtime.data.samples import Order, Position

COUNT, OWN, LARGEST = 100, 12, 96
"""100 is no multiple of any batch: the last step of an epoch is smaller."""
EPOCHS = 16
KINDS = {"Adam": ("sqrt", 0.01), "SGD": ("linear", 0.02)}


def make(kind: str) -> tuple[nn.Module, Any, Any, TensorDataset]:
    """Model, optimiser, schedule and data."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).double()
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=KINDS[kind][1])
    x = torch.randn(COUNT, 8, dtype=torch.float64)
    data = TensorDataset(x, (x.sin().sum(1) * 2).long() % 4)
    return model, optimizer, ExponentialLR(optimizer, 0.995), data


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One for each sample."""
    return cross_entropy(model(x), y, reduction="none")


def plain(kind: str, totals: Sequence[int]) -> dict[str, Tensor]:
    """The parameters after steps of these sizes in one process, without Muster."""
    model, optimizer, schedule, data = make(kind)
    order, position = Order(COUNT, OWN, seed=0), Position()
    for total in totals:
        order.batch = total
        ids = order.ids(position)
        assert len(ids) == total
        optimizer.zero_grad()
        losses(model, *data[ids]).mean().backward()
        times = max(total, OWN) / OWN
        own = optimizer.param_groups[0]["lr"]
        optimizer.param_groups[0]["lr"] = own * (times**0.5 if KINDS[kind][0] == "sqrt" else times)
        optimizer.step()
        optimizer.param_groups[0]["lr"] = own
        for _ in range((position.seen + total) // OWN - position.seen // OWN):
            schedule.step()
        position = order.after(position)
    return model.state_dict()


def main() -> None:
    """Train as told and write the final parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", required=True)
    parser.add_argument("--release", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--kind", default="Adam")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--checkpoint")
    parser.add_argument("--rule", help="of the learning rate, instead of the kind's own")
    options = parser.parse_args()
    model, optimizer, schedule, data = make(options.kind)

    def slowly(net: nn.Module, *batch: Tensor) -> Tensor:
        if not Path(options.release).is_file():
            time.sleep(options.pace)
        return losses(net, *batch)

    ctx = muster.Training(
        model=model,
        optimizer=optimizer,
        scheduler=schedule,
        loss=slowly,
        dataset=data,
        global_batch=(OWN, LARGEST),
        lr_scale=options.rule or KINDS[options.kind][0],
        epochs=options.epochs,
        checkpoint=options.checkpoint,
        checkpoint_every=5,
    ).run()
    if ctx.primary:
        torch.save(model.state_dict(), options.out)


if __name__ == "__main__":
    main()
