"""One training of `live_batch.py`: a network of examples/ until its loss reaches a target.

Writes what happened as JSON: seconds and samples to the target, each step's batch, the noise and the
efficiency that the runtime believed in, and how good the result is on data that was not trained on.
"""

import argparse
import importlib
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[2]))

import muster

cnn: Any = importlib.import_module("examples.elastic.cnn")
gpt: Any = importlib.import_module("examples.elastic.gpt")

LENGTH = 16
WINDOW = 512
"""Samples over which the loss is averaged: the same at any batch."""
HELD_BACK = 256
"""Pieces of text that are not trained on."""

Losses = Callable[[nn.Module, list[Tensor]], Tensor]


def shapes(seed: int) -> tuple[nn.Module, Any, TensorDataset, Losses, Callable[[nn.Module], float]]:
    """The CNN: model, optimiser, data, losses, and the share of new pictures it tells right."""
    model = cnn.network()
    images, labels = cnn.pictures(1_000, seed=10_000).tensors

    def right(trained: nn.Module) -> float:
        with torch.no_grad():
            guesses = trained.eval().cpu()(images).argmax(1)
        return float((guesses == labels).float().mean())

    def losses(net: nn.Module, batch: list[Tensor]) -> Tensor:
        return cross_entropy(net(batch[0]), batch[1], reduction="none")

    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    return model, optimizer, cnn.pictures(16_000, seed), losses, right


def text(_: int) -> tuple[nn.Module, Any, TensorDataset, Losses, Callable[[nn.Module], float]]:
    """The GPT: model, optimiser, data, losses, and the share of next characters it guesses right."""
    model = gpt.Gpt(width=64, layers=2, length=LENGTH)
    x, y = gpt.pieces(gpt.TEXT, LENGTH).tensors

    def right(trained: nn.Module) -> float:
        with torch.no_grad():
            guesses = trained.eval().cpu()(x[-HELD_BACK:]).argmax(2)
        return float((guesses == y[-HELD_BACK:]).float().mean())

    def losses(net: nn.Module, batch: list[Tensor]) -> Tensor:
        return cross_entropy(net(batch[0]).transpose(1, 2), batch[1], reduction="none").mean(1)

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    return model, optimizer, TensorDataset(x[:-HELD_BACK], y[:-HELD_BACK]), losses, right


KINDS = {"cnn": shapes, "gpt": text}


def main() -> None:
    """Train and write what happened."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=KINDS, required=True)
    parser.add_argument("--own", type=int, required=True)
    parser.add_argument("--largest", type=int, default=0, help="0: the batch stays as it is")
    parser.add_argument("--target", type=float, required=True, help="mean loss of the last samples")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, default=60, help="at most")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()

    torch.manual_seed(asked.seed)
    model, optimizer, data, losses, right = KINDS[asked.model](asked.seed)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    batch = (asked.own, asked.largest) if asked.largest else asked.own
    ctx.data(data, batch, epochs=asked.epochs, seed=asked.seed)
    ctx.forward(losses)
    steps: list[tuple[float, int, float, float | None, float | None]] = []
    recent: deque[tuple[int, float]] = deque()
    began, samples, reached = 0.0, 0, False
    for given in ctx.steps():
        began = began or time.monotonic()  # all workers are there, and everything is loaded
        if ctx.step > len(steps):  # the last step counted: what it was is known now
            total = ctx.seen - samples
            samples = ctx.seen
            recent.append((total, ctx.loss))
            while sum(count for count, _ in recent) - recent[0][0] >= WINDOW:
                recent.popleft()
            weight = sum(count for count, _ in recent)
            mean = sum(count * loss for count, loss in recent) / weight
            now = time.monotonic() - began
            steps.append((now, total, mean, ctx.noise, ctx.efficiency))
            if weight >= WINDOW and mean < asked.target and not reached:
                reached = True
                ctx.stop()
        optimizer.zero_grad()
        ctx.backward(losses(model, given))
        optimizer.step()
    if ctx.primary:
        found = {"reached": reached, "steps": steps, "right": right(model)}
        asked.out.write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
