"""Which samples a step takes: one global order and one cursor, for any number of workers.

Step k takes perm(seed, epoch)[cursor : cursor + batch], split by the workers' shares. The position is
part of the training's state and moves only with a commit: a lost step is split again among the
survivors, and no sample is lost or repeated within an epoch.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError

_KEPT = 2
"""Epochs whose order is cached: this one and the next, which is loaded ahead."""


@dataclass(frozen=True, slots=True)
class Position:
    """Progress of the training: `cursor` samples of the epoch and `step` steps in total are done."""

    epoch: int = 0
    cursor: int = 0
    step: int = 0
    seen: int = field(default=0, compare=False)
    """Samples in total: with a free batch, steps differ in size."""

    def after(self, samples: int, over: bool) -> "Position":
        """Return the position after a step of these samples; `over`: it ends the epoch."""
        step, seen = self.step + 1, self.seen + samples
        if over:
            return Position(self.epoch + 1, 0, step, seen)
        return Position(self.epoch, self.cursor + samples, step, seen)


class Order:
    """The order of a dataset's samples, the same on every worker.

    torch's `randperm` of a generator seeded by (seed, epoch): stable within a release of torch. The
    last batch of an epoch is smaller unless `drop_last`. `batch` may change between two steps.
    """

    def __init__(
        self, count: int, batch: int, seed: int = 0, shuffle: bool = True, drop_last: bool = False
    ) -> None:
        """`count` samples, `batch` per step over all workers."""
        if batch < 1:
            raise BadTrainingError(f"the global batch is {batch} samples: it must be at least 1")
        if count < batch:
            raise BadTrainingError(
                f"the dataset has {count} samples, fewer than the global batch of {batch}: "
                f"take a global batch of {count} at most, or a larger dataset"
            )
        self.count, self.batch, self.seed = count, batch, seed
        self.own = batch
        """The batch to begin with, the smallest there is."""
        self._shuffle, self._drop_last = shuffle, drop_last
        self._orders: dict[int, Tensor] = {}

    @property
    def steps_per_epoch(self) -> int:
        """Steps of an epoch in the batch to begin with."""
        whole, rest = divmod(self.count, self.own)
        return whole + (1 if rest and not self._drop_last else 0)

    def size(self, position: Position) -> int:
        """Return the number of samples of the step at this position, over all workers."""
        size = self._taken(position.cursor, self.count)
        if not size:
            raise BadTrainingError(
                f"the training is at sample {position.cursor} of epoch {position.epoch}, "
                f"but an epoch has {self.count}: it was started with another dataset"
            )
        return size

    def ids(self, position: Position) -> Tensor:
        """Return the samples of the step at this position, over all workers (int64)."""
        first = position.cursor
        return self._order(position.epoch)[first : first + self.size(position)]

    def after(self, position: Position) -> Position:
        """Return the position after this step."""
        size = self.size(position)
        return position.after(size, not self._taken(position.cursor + size, self.count))

    def _taken(self, cursor: int, count: int) -> int:
        """Return the samples of a step at a cursor of an epoch of `count`; 0: the epoch is over.

        With `drop_last`, no step is smaller than the batch to begin with.
        """
        rest = count - cursor
        return 0 if rest < (self.own if self._drop_last else 1) else min(self.batch, rest)

    def _order(self, epoch: int) -> Tensor:
        if not self._shuffle:
            epoch = 0
        if epoch not in self._orders:
            self._orders[epoch] = self._drawn(epoch)
            while len(self._orders) > _KEPT:
                del self._orders[next(iter(self._orders))]
        return self._orders[epoch]

    def _drawn(self, epoch: int) -> Tensor:
        if not self._shuffle:
            return torch.arange(self.count)
        return torch.randperm(
            self.count, generator=torch.Generator().manual_seed(mixed_seed(self.seed, epoch))
        )


def cut(total: int, shares: Sequence[int], least: int = 1) -> tuple[tuple[int, int], ...]:
    """Return each rank's (first, count) of a step's samples.

    `shares`: samples of each rank in a full batch. A smaller batch is split in proportion, by largest
    remainder: nobody gets more than its share, so it still fits into memory. `least`: 2 if nobody may
    have a single sample, unless there is only one.
    """
    whole = sum(shares)
    if whole < 1 or min(shares) < 0 or total < 0:
        raise ValueError(f"{total} samples cannot be cut by shares of {list(shares)}")
    counts = [total * share // whole for share in shares]
    # Integers only: every rank must get the same answer.
    by_remainder = sorted(range(len(shares)), key=lambda rank: (-(total * shares[rank] % whole), rank))
    for rank in by_remainder[: total - sum(counts)]:
        counts[rank] += 1
    if least > 1 and total > 1:
        _pair(counts)
    return tuple(zip(accumulate(counts, initial=0), counts, strict=False))


def _pair(counts: list[int]) -> None:
    """Put single samples together, and the last one to or from another rank."""
    singles = [rank for rank, count in enumerate(counts) if count == 1]
    for one, other in zip(singles[::2], singles[1::2], strict=False):
        counts[one], counts[other] = 2, 0
    if len(singles) % 2:
        left = singles[-1]
        most = max((rank for rank in range(len(counts)) if rank != left), key=lambda r: (counts[r], -r))
        give = 1 if counts[most] > 2 else -1
        counts[left] += give
        counts[most] -= give


def mixed_seed(*words: int) -> int:
    """Hash words into a seed; similar words give unrelated seeds."""
    digest = blake2b(repr(words).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
