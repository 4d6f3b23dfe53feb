"""The training of `train.py` on data of many kinds: --kind weighted; what it drew is in the result."""

import argparse
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

sys.path.insert(0, str(Path(__file__).parents[3]))

import muster
from tests.runtime.scripts import tasks

COUNT, BATCH = tasks.COUNT, tasks.BATCH
TASK = os.environ.get("MUSTER_TASK", "")


class Read(Dataset[Any]):
    """Samples read one by one, with a little noise that is the same wherever a sample is read."""

    def __init__(self, data: Any, noise: float = 0.0) -> None:
        self._data, self._noise = data, noise

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, i: int) -> Any:
        x, y, number = self._data[i]
        return x + self._noise * torch.randn(x.shape), y, number


class Stream(IterableDataset[Any]):
    """The samples in their order, one after another."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __iter__(self) -> Iterator[Any]:
        yield from (self._data[i] for i in range(len(self._data)))


def weighted(_: int = 0) -> WeightedRandomSampler:
    """Odd samples thrice as often."""
    return WeightedRandomSampler([1.0 + 2.0 * (i % 2) for i in range(COUNT)], COUNT)


def really_random(_: int) -> list[int]:
    """Other ids on every worker."""
    return random.SystemRandom().sample(range(COUNT), COUNT)


class Buckets:
    """Batches of 8, 16 and 24 samples; torch would call it a batch sampler."""

    def __len__(self) -> int:
        return 6

    def __iter__(self) -> Iterator[list[int]]:
        ids = torch.randperm(COUNT).tolist()
        ends = [8, 24, 48, 56, 72, 96]
        yield from (ids[a:b] for a, b in zip([0, *ends], ends, strict=False))


def given(kind: str, data: Any) -> tuple[Any, dict[str, Any]]:
    """What is handed to `ctx.data`, and how."""
    odd = TASK == "worker-1"
    kinds: dict[str, Any] = {
        "weighted": lambda: (data, {"sampler": weighted()}),
        "buckets": lambda: (data, {"sampler": Buckets()}),
        "loader": lambda: (DataLoader(Read(data), BATCH, shuffle=True, num_workers=2), {}),
        "augmented": lambda: (Read(data, 0.1), {"loaders": 2}),
        "stream": lambda: (Stream(data), {}),
        "unsure": lambda: (
            data,
            {"sampler": really_random},
        ),
        "shorter": lambda: (torch.utils.data.Subset(data, range(COUNT - 8)) if odd else data, {}),
        "others": lambda: (Read(data, 0.1 if odd else 0.0), {"augment": False}),
    }
    return kinds[kind]()


def main() -> None:
    """Train as told and write the final parameters."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--pace", type=float, default=0.0)
    parser.add_argument("--release", default="")
    options = parser.parse_args()
    model, optimizer, data = tasks.make("cnn")
    ctx = muster.init()
    ctx.wrap(model, optimizer)
    source, how = given(options.kind, data)
    ctx.data(source, **{"global_batch": BATCH, "steps": 10_000, **how})
    for batch in ctx.steps():
        if options.pace and not Path(options.release).is_file():
            time.sleep(options.pace)
        optimizer.zero_grad()
        ctx.backward(tasks.losses(model, *batch))
        optimizer.step()
    if ctx.primary:
        torch.save(model.state_dict(), options.out)


if __name__ == "__main__":
    main()
