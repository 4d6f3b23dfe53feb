"""Will this reader click? A wide embedding for parameter servers: `python examples/elastic/wide.py`, or

    python -m muster.runtime --workers 2 --servers 1 --sync dedicated examples/elastic/wide.py

Nearly all parameters are one table, a row for every word that a reader may have seen: much to
synchronise, little to compute, which is what servers are for. The clicks are made here, from tastes
that the model is not told.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits
from torch.utils.data import TensorDataset

import muster

WORDS = 12
"""Each reader has seen."""


def clicks(count: int, words: int, seed: int) -> TensorDataset:
    """The words that each reader has seen, few of them often and many seldom, and who clicked."""
    draw = torch.Generator().manual_seed(seed)
    # Uniform in the logarithm: word k is seen about 1/k as often as the first (Zipf's law).
    seen = (words ** torch.rand(count, WORDS, generator=draw)).long() - 1
    taste = 0.6 * torch.randn(words, generator=torch.Generator().manual_seed(99))
    chance = taste[seen].sum(1).sigmoid()
    return TensorDataset(seen, (torch.rand(count, generator=draw) < chance).float())


class Wide(nn.Module):
    """The mean of the words' rows, and two dense layers."""

    def __init__(self, words: int, width: int) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(words, width, mode="sum")
        nn.init.normal_(self.table.weight, std=0.01)
        self.deep = nn.Sequential(nn.Linear(width, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, seen: Tensor) -> Tensor:
        """The logarithm of the odds of a click."""
        return self.deep(self.table(seen)).squeeze(1)


def losses(model: nn.Module, seen: Tensor, clicked: Tensor) -> Tensor:
    """One for each reader."""
    return binary_cross_entropy_with_logits(model(seen), clicked, reduction="none")


def main() -> None:
    """Train, then look at readers that were not trained on."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--words", type=int, default=100_000, help="rows of the table")
    parser.add_argument("--width", type=int, default=16, help="of each row")
    parser.add_argument("--readers", type=int, default=100_000)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--global-batch", type=int, default=512)
    parser.add_argument("--seed", type=int, default=0, help="of parameters and of the data's order")
    asked = parser.parse_args()

    torch.manual_seed(asked.seed)
    model = Wide(asked.words, asked.width)
    ctx = muster.Training(
        model=model,
        optimizer=torch.optim.Adam(model.parameters(), lr=3e-3),
        loss=losses,
        dataset=clicks(asked.readers, asked.words, seed=0),
        global_batch=asked.global_batch,
        epochs=asked.epochs,
        seed=asked.seed,
    ).run()

    if ctx.primary:
        seen, clicked = clicks(5_000, asked.words, seed=1).tensors
        with torch.no_grad():
            right = ((model.cpu()(seen) > 0) == (clicked > 0)).float().mean().item()
        print(f"final loss {ctx.epoch_loss:.4f}, {right:.1%} of new readers right")


if __name__ == "__main__":
    main()
