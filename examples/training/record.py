"""Train small models for real and record one loss per epoch: `python examples/training/record.py`.

Needs torch and scikit-learn (`pip install scikit-learn`), which the rest of Muster does not; the data
comes with scikit-learn and with Python itself, nothing is downloaded. One thread, fixed seeds; each
curve takes under half a minute on one core. The loss of an epoch is the mean over its samples, as
training saw them. With names, only those curves are recorded again.
"""

import argparse
import time
from math import isfinite
from pathlib import Path

import torch
from recipes import BENCHMARK, TUNING, Recipe
from torch.utils.data import DataLoader, TensorDataset

CURVES = Path(__file__).parent / "curves"
EPOCHS_AFTER_NAN = 5
"""A diverged training is of no more interest; a few epochs show that it stays so."""


def train(recipe: Recipe) -> list[float]:
    """The mean training loss of each epoch."""
    torch.manual_seed(recipe.seed)
    batches = DataLoader(TensorDataset(*recipe.samples()), recipe.batch, shuffle=True)
    model = recipe.model()
    optimiser = recipe.optimiser(model)
    schedule = recipe.schedule(optimiser) if recipe.schedule else None
    losses: list[float] = []
    while len(losses) < recipe.epochs and not diverged(losses):
        losses.append(epoch(recipe, model, optimiser, batches))
        if schedule:
            schedule.step()
    return losses


def diverged(losses: list[float]) -> bool:
    """Whether the last epochs all lost their number."""
    last = losses[-EPOCHS_AFTER_NAN:]
    return len(last) == EPOCHS_AFTER_NAN and not any(map(isfinite, last))


def epoch(
    recipe: Recipe,
    model: torch.nn.Module,
    optimiser: torch.optim.Optimizer,
    batches: "DataLoader[tuple[torch.Tensor, ...]]",
) -> float:
    """One pass over the data."""
    total, samples = 0.0, 0
    for inputs, targets in batches:
        optimiser.zero_grad()
        loss = recipe.loss(model(inputs), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        total += loss.item() * len(inputs)
        samples += len(inputs)
    return total / samples


def write(path: Path, losses: list[float]) -> None:
    """Write a curve; six digits are more than the noise leaves meaningful."""
    rows = [f"{at},{loss:.6g}" for at, loss in enumerate(losses, start=1)]
    path.write_text("\n".join(["epoch,loss", *rows, ""]))


def main() -> None:
    """Record all curves, or those named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="curves to record (default: all)")
    names = parser.parse_args().names
    torch.set_num_threads(1)
    for folder, recipes in ((CURVES, BENCHMARK), (CURVES / "tuning", TUNING)):
        for name, recipe in recipes.items():
            if not names or name in names:
                began = time.monotonic()
                losses = train(recipe)
                write(folder / f"{name}.csv", losses)
                print(f"{name}: {len(losses)} epochs in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
