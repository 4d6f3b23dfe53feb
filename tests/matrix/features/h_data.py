"""Where samples come from."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
)

from tests.matrix.feature import BATCH, COUNT, REFUSED, Feature, Parts, mean_backward
from tests.matrix.noted import note, noted


class Rest(Feature):
    title = "a last batch smaller than the workers"

    def dataset(self) -> Any:
        whole = super().dataset()
        return TensorDataset(*(column[: 2 * BATCH + 1] for column in whole.tensors))


class DropLast(Rest):
    title = "`drop_last`"

    def options(self) -> dict[str, Any]:
        return {"global_batch": BATCH, "drop_last": True}


class Weighted(Feature):
    title = "`WeightedRandomSampler`"

    def options(self) -> dict[str, Any]:
        sampler = WeightedRandomSampler([1.0 + i % 3 for i in range(COUNT)], COUNT)
        return {"global_batch": BATCH, "sampler": sampler}


class Bucketed(Feature):
    title = "batches bucketed by length"

    def options(self) -> dict[str, Any]:
        def batches(epoch: int) -> list[list[int]]:
            ids, sizes = torch.randperm(COUNT).tolist(), [4, 12, 16, 8, 24]
            ends = [sum(sizes[: n + 1]) for n in range(len(sizes))]
            return [ids[end - size : end] for size, end in zip(sizes, ends, strict=True)]

        return {"sampler": batches, "global_batch": 24}


class Loaded(Feature):
    title = "a `DataLoader` with two workers"

    def dataset(self) -> Any:
        return DataLoader(super().dataset(), BATCH, shuffle=True, num_workers=2)

    def options(self) -> dict[str, Any]:
        return {}


class Noisy(Dataset[Any]):
    """Samples with noise out of every generator that transforms use."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, i: int) -> Any:
        x, y = self.data[i]
        return x + 0.1 * torch.randn(x.shape) + 0.1 * random.random(), y


class Augmented(Feature):
    title = "random augmentation, loaded by processes"
    note = "`loaders=2`: seeded by (seed, epoch, sample)"

    def dataset(self) -> Any:
        return Noisy(super().dataset())

    def options(self) -> dict[str, Any]:
        return {"global_batch": BATCH, "loaders": 2}


class AugmentedHere(Augmented):
    title = "random augmentation, loaded by the worker"
    note = ""

    def options(self) -> dict[str, Any]:
        return {"global_batch": BATCH}


class InOrder(IterableDataset[Any]):
    """A stream of the samples."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def __iter__(self) -> Iterator[Any]:
        order = list(range(COUNT))
        random.shuffle(order)
        yield from (self.data[i] for i in order)


class Streamed(Feature):
    title = "a shuffled `IterableDataset`"
    note = "read by every worker, each keeps its part"

    def dataset(self) -> Any:
        return InOrder(super().dataset())


class Files:
    """Six shards."""

    def __init__(self, data: Any) -> None:
        self.data = data

    def shards(self) -> int:
        return 6

    def shard(self, i: int) -> Iterator[Any]:
        yield from (self.data[n] for n in range(i, COUNT, 6))


class Sharded(Feature):
    """Workers note the samples that they read, so that plain torch can train on the same ones."""

    title = "shards of a stream"
    note = "leased: at least once when a worker leaves or dies, exactly once with `repeatable = True`"

    def dataset(self) -> Any:
        return Files(TensorDataset(*super().dataset().tensors, torch.arange(COUNT)))

    def losses(self, parts: Parts, batch: Any) -> Tensor:
        return super().losses(parts, batch[:2])

    def elastic(self, ctx: Any, parts: Parts, pace: Callable[[], None]) -> None:
        for batch in ctx.steps():
            pace()
            note(parts.folder, ctx, ctx.epoch, *(batch[2].tolist() if ctx.share else ()))
            self.body(parts, batch, ctx.backward, ctx.step)

    def plain(self, parts: Parts, steps: int, seed: int = 0) -> None:
        seen, last = torch.zeros(COUNT, dtype=torch.int64), 0
        for step, workers in enumerate(noted(parts.folder)[:steps]):
            epoch, ids = workers[0][0], [i for _, *ids in workers for i in ids]
            # A worker may read ahead into the next epoch, while others finish this one.
            assert epoch == last or int(seen.min()) >= epoch, f"epoch {last} misses samples"
            last = epoch
            seen += torch.bincount(torch.tensor(ids), minlength=COUNT)
            self.body(parts, parts.data.data[ids], mean_backward, step)


class Distributed(Feature):
    title = "`DistributedSampler`"
    verdict, words = REFUSED, "Muster divides each step itself: leave it out"

    def options(self) -> dict[str, Any]:
        return {"global_batch": BATCH, "sampler": DistributedSampler(range(COUNT), 2, 0)}


class Unsure(Feature):
    title = "a sampler that draws other ids on every worker"
    verdict, words = REFUSED, "drew other samples than"

    def options(self) -> dict[str, Any]:
        drawn = random.SystemRandom().sample
        return {"global_batch": BATCH, "sampler": lambda _: drawn(range(COUNT), COUNT)}


class Different(Feature):
    title = "a dataset that differs between workers"
    verdict, words = REFUSED, "has another dataset than"

    def dataset(self) -> Any:
        torch.manual_seed(random.SystemRandom().randrange(1 << 30))
        return super().dataset()


FEATURES = (
    Rest(), DropLast(), Weighted(), Bucketed(), Loaded(), AugmentedHere(), Augmented(), Streamed(),
    Sharded(), Distributed(), Unsure(), Different(),
)  # fmt: skip
