"""Orders given by a sampler: ids per epoch, or batches of ids, the same on every worker.

A sampler is drawn once per epoch on every worker, with all generators seeded by (seed, epoch), its own
as well. Workers compare what they drew with every step (`Feed.drawn`), so a sampler that draws from
elsewhere is an error and not a different training.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any

import torch
from torch import Tensor

from muster.runtime.data.randomness import generators_kept, seed_generators
from muster.runtime.data.samples import Order, Position, mixed_seed
from muster.runtime.errors import BadTrainingError

ENDLESS = 1 << 24
"""Ids after which a sampler without `len()` counts as endless."""


@dataclass(frozen=True, slots=True)
class DrawnEpoch:
    """One epoch's ids, and where each batch of them ends, if the sampler gives batches."""

    ids: Tensor
    ends: tuple[int, ...] = ()


class SampledOrder(Order):
    """An order drawn from a sampler, which may name an id never or often."""

    def __init__(
        self, sampler: Any, dataset: int, batch: int, seed: int = 0, drop_last: bool = False
    ) -> None:
        """`sampler`: a function of the epoch, or an iterable as torch's samplers; of ids, or of lists
        of ids, one for each step. `dataset`: its samples. `batch`: ids per step, unless it gives lists.
        """
        check_sampler(sampler)
        self._sampler, self._dataset, self._drop_last = sampler, dataset, drop_last
        self._own = [(one, one.initial_seed()) for one in _own_generators(sampler)]
        self._epochs: dict[int, DrawnEpoch] = {}
        self.seed, self.batch, self.own = seed, batch, batch
        first = self._epoch(0)
        self.count, self.batch = len(first.ids), batch or _largest(first)
        self.gives_batches = bool(first.ends)

    @property
    def steps_per_epoch(self) -> int:
        """Steps of the first epoch; a sampler may give others another number."""
        first = self._epoch(0)
        if first.ends:
            return len(first.ends)
        whole, rest = divmod(len(first.ids), self.own)
        return whole + bool(rest and not self._drop_last)

    def size(self, position: Position) -> int:
        return len(self.ids(position))

    def ids(self, position: Position) -> Tensor:
        epoch, first = self._epoch(position.epoch), position.cursor
        size = self._size_at(epoch, first)
        if not size:
            raise BadTrainingError(
                f"the training is at sample {position.cursor} of epoch {position.epoch}, but the "
                f"sampler gives {len(epoch.ids)}: it was started with another sampler"
            )
        return epoch.ids[first : first + size]

    def after(self, position: Position) -> Position:
        size = self.size(position)
        following = self._size_at(self._epoch(position.epoch), position.cursor + size)
        return position.after(size, not following)

    def _size_at(self, epoch: DrawnEpoch, cursor: int) -> int:
        """Return the ids of a step at a cursor of an epoch; 0: the epoch is over."""
        if not epoch.ends:
            return self._taken(cursor, len(epoch.ids))
        index = bisect_right(epoch.ends, cursor)
        return epoch.ends[index] - cursor if index < len(epoch.ends) else 0

    def _epoch(self, epoch: int) -> DrawnEpoch:
        if epoch not in self._epochs:
            # This one and the next, which is loaded ahead.
            self._epochs = {known: self._epochs[known] for known in self._epochs if known == epoch - 1}
            self._epochs[epoch] = self._cut(epoch, self._draw(epoch))
        return self._epochs[epoch]

    def _draw(self, epoch: int) -> list[Any]:
        """Draw an epoch's ids or batches, with every generator seeded."""
        with generators_kept():
            seed_generators(mixed_seed(self.seed, epoch))
            for generator, own in self._own:
                generator.manual_seed(mixed_seed(self.seed, epoch, own))
            for part in _nested(self._sampler):
                if callable(getattr(part, "set_epoch", None)):
                    part.set_epoch(epoch)
            given = self._sampler(epoch) if callable(self._sampler) else self._sampler
            return _all_of(given)

    def _cut(self, epoch: int, drawn: list[Any]) -> DrawnEpoch:
        if drawn and not isinstance(drawn[0], int):
            batches = [_ids(batch) for batch in drawn]
            sizes = [len(batch) for batch in batches if len(batch)]
            ids = torch.cat([torch.empty(0, dtype=torch.int64), *batches])
            self._check(epoch, ids, bool(sizes))
            return DrawnEpoch(ids, tuple(accumulate(sizes)))
        ids = torch.tensor(drawn, dtype=torch.int64)
        self._check(epoch, ids, bool(self.own and self._taken(0, len(ids))))
        return DrawnEpoch(ids)

    def _check(self, epoch: int, ids: Tensor, enough: bool) -> None:
        if not self.batch and not enough:
            raise BadTrainingError(
                "global_batch= is missing: the sampler gives ids, not batches of ids"
            )
        if not enough:
            raise BadTrainingError(
                f"the sampler gave {len(ids)} ids for epoch {epoch}: not one batch of {self.own}"
            )
        low, high = int(ids.min()), int(ids.max())
        if low < 0 or high >= self._dataset:
            wrong = low if low < 0 else high
            raise BadTrainingError(
                f"the sampler gave id {wrong} in epoch {epoch}, and the dataset has {self._dataset} "
                "samples"
            )


def check_sampler(sampler: Any) -> None:
    """Refuse what divides the samples by itself, or is no sampler."""
    for part in _nested(sampler):
        if type(part).__name__ == "DistributedSampler" or (
            hasattr(part, "num_replicas") and hasattr(part, "rank")
        ):
            raise BadTrainingError(
                f"{type(part).__name__} gives each rank a part of its own, and Muster divides each "
                "step itself: leave it out (shuffle=True, seed=...), or pass the sampler that it wraps"
            )
    if not callable(sampler) and not isinstance(sampler, Iterable):
        raise BadTrainingError(
            f"sampler= is a {type(sampler).__name__}: give a function of the epoch that returns ids, "
            "or a torch sampler"
        )


def _nested(sampler: Any) -> Iterator[Any]:
    """Yield a sampler and those it draws from."""
    while sampler is not None:
        yield sampler
        sampler = getattr(sampler, "sampler", None)


def _own_generators(sampler: Any) -> list[torch.Generator]:
    found = [getattr(part, "generator", None) for part in _nested(sampler)]
    return [one for one in found if isinstance(one, torch.Generator)]


def _all_of(given: Any) -> list[Any]:
    if isinstance(given, Tensor) or hasattr(given, "tolist"):
        return list(given.tolist())
    if hasattr(given, "__len__"):
        return [_plain(one) for one in islice(iter(given), len(given))]
    drawn = [_plain(one) for one in islice(iter(given), ENDLESS)]
    if len(drawn) == ENDLESS:
        raise BadTrainingError(
            f"the sampler has no len() and gave {ENDLESS:,} ids without an end: pass a function of the "
            "epoch that returns one epoch's ids"
        )
    return drawn


def _plain(one: Any) -> Any:
    """Return an id as a number, and a batch as it is."""
    if isinstance(one, int):
        return one
    return one if getattr(one, "ndim", 1) and hasattr(one, "__len__") else int(one)


def _ids(batch: Any) -> Tensor:
    return torch.as_tensor([int(one) for one in batch], dtype=torch.int64)


def _largest(epoch: DrawnEpoch) -> int:
    return max(end - begin for begin, end in zip((0, *epoch.ends), epoch.ends, strict=False))
