"""A training with Adam and a falling rate; options ask for what owners that update cannot do."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim.lr_scheduler import ExponentialLR
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from muster.runtime.data.samples import Order, Position
from tests.runtime.scripts import tasks


class Streams:
    """The same samples as shards of unknown length."""

    def __init__(self, data: TensorDataset) -> None:
        self._data = data

    def shards(self) -> int:
        """Two of them."""
        return 2

    def shard(self, index: int) -> Any:
        """Every second sample."""
        return (self._data[i] for i in range(index, len(self._data), 2))


def make(kind: str = "Adam", idle: bool = False) -> tuple[nn.Module, Any, Any, TensorDataset]:
    """Model (with a parameter that nothing uses, if so wished), optimiser, schedule and data."""
    torch.manual_seed(4)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 1))
    if idle:
        model.register_parameter("idle", nn.Parameter(torch.ones(3)))
    optimizer = getattr(torch.optim, kind)(model.parameters(), lr=0.01)
    x = torch.randn(tasks.COUNT, 8)
    data = TensorDataset(x, x.sin().sum(1, keepdim=True))
    return model, optimizer, ExponentialLR(optimizer, 0.99), data


def losses(model: nn.Module, x: Tensor, y: Tensor) -> Tensor:
    """One for each sample."""
    return mse_loss(model(x), y, reduction="none").flatten(1).mean(1)


def plain(steps: int) -> dict[str, Tensor]:
    """The parameters after the same training in one process, without Muster."""
    model, optimizer, schedule, data = make()
    order, position = Order(tasks.COUNT, tasks.BATCH, seed=0), Position()
    while position.step < steps:
        optimizer.zero_grad()
        losses(model, *data[order.ids(position)]).mean().backward()
        optimizer.step()
        schedule.step()
        position = order.after(position)
    return model.state_dict()


def main() -> None:
    """Train as told and write the final parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out")
    parser.add_argument("--release")
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--clip", type=float)
    parser.add_argument("--kind", default="Adam")
    parser.add_argument("--streams", action="store_true")
    parser.add_argument("--idle", help="a parameter that nothing uses: refused, or allowed")
    options = parser.parse_args()
    model, optimizer, schedule, data = make(options.kind, options.idle is not None)

    def slowly(net: nn.Module, *batch: Tensor) -> Tensor:
        time.sleep(options.pace)
        return losses(net, *batch)

    ctx = muster.Training(
        model=model,
        optimizer=optimizer,
        scheduler=schedule,
        loss=slowly,
        dataset=Streams(data) if options.streams else data,
        global_batch=tasks.BATCH,
        epochs=100_000,
        clip=options.clip,
        allow_unused=options.idle == "allowed",
    ).run()
    if ctx.primary:
        torch.save(model.state_dict(), options.out)


if __name__ == "__main__":
    main()
