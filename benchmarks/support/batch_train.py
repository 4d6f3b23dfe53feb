"""One training of `live_batch.py`: a network of examples/ until its loss reaches a target.

Writes what happened as JSON: seconds and samples to the target, each step's batch and the noise that
the runtime believed in, and how good the result, and the model on its way there, are on data that was
not trained on. BatchNorm normalises that by its own statistics: the loss of a training step is higher
with a small batch, however good the model.
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
EVERY = 512
"""Samples between two models that are judged."""
HELD_BACK = 512
"""Samples that are not trained on."""

Losses = Callable[[nn.Module, list[Tensor]], Tensor]


def shapes(seed: int) -> tuple[nn.Module, Any, TensorDataset, Losses, list[Tensor]]:
    """The CNN: model, optimiser, data, losses, and new pictures."""
    model = cnn.network()

    def losses(net: nn.Module, batch: list[Tensor]) -> Tensor:
        return cross_entropy(net(batch[0]), batch[1], reduction="none")

    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    new = list(cnn.pictures(HELD_BACK, seed=10_000).tensors)
    return model, optimizer, cnn.pictures(16_000, seed), losses, new


def text(_: int) -> tuple[nn.Module, Any, TensorDataset, Losses, list[Tensor]]:
    """The GPT: model, optimiser, data, losses, and new pieces of text."""
    model = gpt.Gpt(width=64, layers=2, length=LENGTH)
    x, y = gpt.pieces(gpt.TEXT, LENGTH).tensors

    def losses(net: nn.Module, batch: list[Tensor]) -> Tensor:
        return cross_entropy(net(batch[0]).transpose(1, 2), batch[1], reduction="none").mean(1)

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    new = [x[-HELD_BACK:], y[-HELD_BACK:]]
    return model, optimizer, TensorDataset(x[:-HELD_BACK], y[:-HELD_BACK]), losses, new


KINDS = {"cnn": shapes, "gpt": text}


def right(model: nn.Module, new: list[Tensor]) -> float:
    """The share of new samples that a model tells right."""
    with torch.no_grad():
        guesses = model.eval().cpu()(new[0]).argmax(-1)
    return float((guesses == new[1]).float().mean())


def judged(model: nn.Module, state: dict[str, Tensor], losses: Losses, new: list[Tensor]) -> float:
    """The mean loss of new samples, as one batch."""
    model.load_state_dict(state)
    with torch.no_grad():
        return float(losses(model.train(), new).mean())


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
    model, optimizer, data, losses, new = KINDS[asked.model](asked.seed)
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    batch = (asked.own, asked.largest) if asked.largest else asked.own
    ctx.data(data, batch, epochs=asked.epochs, seed=asked.seed)
    ctx.forward(losses)
    steps: list[tuple[float, int, float, float | None]] = []
    kept: list[tuple[int, dict[str, Tensor]]] = []
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
            steps.append((now, total, mean, ctx.noise))
            if ctx.primary and samples // EVERY > (samples - total) // EVERY:
                kept.append(
                    (samples, {name: each.clone() for name, each in model.state_dict().items()})
                )
            if weight >= WINDOW and mean < asked.target and not reached:
                reached = True
                ctx.stop()
        optimizer.zero_grad()
        ctx.backward(losses(model, given))
        optimizer.step()
    if ctx.primary:
        told = right(model, new)
        on_the_way = [(seen, judged(model, state, losses, new)) for seen, state in kept]
        found = {"reached": reached, "steps": steps, "right": told, "judged": on_the_way}
        asked.out.write_text(json.dumps({**found, "own": asked.own}), encoding="utf-8")


if __name__ == "__main__":
    main()
