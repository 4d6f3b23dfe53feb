"""A small training of examples/elastic that ends by its loss, or after a number of epochs.

What ends it is not here: the job says so (`until`).
"""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import TensorDataset

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "elastic"))

import cnn  # type: ignore[import-not-found]
import gpt  # type: ignore[import-not-found]
import wide  # type: ignore[import-not-found]

import muster

LETTERS, LENGTH = 8_000, 32


@dataclass(frozen=True, slots=True)
class Recipe:
    """A model with its data, loss and optimiser."""

    model: nn.Module
    data: TensorDataset
    losses: Callable[..., Tensor]
    optimizer: Any
    batch: int


def pictures(seed: int) -> Recipe:
    """The convolutional network of cnn.py, on few pictures."""
    model = cnn.network()
    criterion = nn.CrossEntropyLoss(reduction="none")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.002, momentum=0.9)
    return Recipe(model, cnn.pictures(320, seed), criterion, optimizer, 40)


def text(seed: int) -> Recipe:
    """The GPT of gpt.py, small, on a part of the pages that the seed chooses."""
    pieces = gpt.pieces(gpt.TEXT, LENGTH)
    first = 50 * seed
    data = TensorDataset(*(rows[first : first + LETTERS // LENGTH] for rows in pieces.tensors))
    model = gpt.Gpt(width=32, layers=1, length=LENGTH)

    def losses(net: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(net(x).transpose(1, 2), y, reduction="none").mean(1)

    return Recipe(model, data, losses, torch.optim.AdamW(model.parameters(), lr=4e-3), 32)


def clicks(seed: int) -> Recipe:
    """The wide embedding of wide.py, with few words."""
    model = wide.Wide(300, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    return Recipe(model, wide.clicks(2_048, 300, seed), wide.losses, optimizer, 256)


RECIPES = {"cnn": pictures, "gpt": text, "wide": clicks}


def main() -> None:
    """Train as the job says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=list(RECIPES))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--epochs", type=int, help="the most, or all")
    asked = parser.parse_args()
    torch.manual_seed(asked.seed)
    recipe = RECIPES[asked.model](asked.seed)
    ctx = muster.Training(
        model=recipe.model,
        optimizer=recipe.optimizer,
        loss=recipe.losses,
        dataset=recipe.data,
        global_batch=recipe.batch,
        epochs=asked.epochs,
        seed=asked.seed,
    ).run()
    if ctx.primary:
        print(f"ended after {ctx.epoch} epochs, loss {ctx.epoch_loss:.4f}")


if __name__ == "__main__":
    main()
