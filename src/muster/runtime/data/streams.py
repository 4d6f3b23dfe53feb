"""Streams as datasets of shards: lists of files, Hugging Face's iterable datasets, torch's.

Shards are leased (`leases.py`): a dataset of them has `shards() -> int` and `shard(i) -> iterator`, or
`shard_in_epoch(i, epoch)` if epochs differ.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import islice
from typing import Any

from torch.utils.data import IterableDataset
from torch.utils.data._utils import worker as torch_worker

from muster.runtime.data.fingerprint import Sketch
from muster.runtime.errors import BadTrainingError

ALIKE = 3
"""First samples that two shards must not have in common."""


class FileShards:
    """Files, or anything else to be read from start to end, one per shard."""

    def __init__(
        self,
        files: Sequence[Any],
        read: Callable[[Any], Iterable[Any]],
        *,
        repeatable: bool = False,
    ) -> None:
        """`read(file)` yields its samples. `repeatable`: always the same ones in the same order; then a
        shard whose worker is lost continues after the last committed step: exactly once."""
        self._files, self._read, self.repeatable = list(files), read, repeatable

    def shards(self) -> int:
        """Return the number of files."""
        return len(self._files)

    def shard(self, number: int) -> Iterator[Any]:
        """Yield the samples of a file."""
        return iter(self._read(self._files[number]))


class HubShards:
    """Hugging Face's `datasets.IterableDataset`, by its own shards."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset
        self.repeatable = bool(getattr(dataset, "repeatable", False))

    def shards(self) -> int:
        """Return the number of its shards."""
        return int(self._dataset.num_shards)

    def shard_in_epoch(self, number: int, epoch: int) -> Iterator[Any]:
        """Yield the samples of a shard, shuffled for the epoch if the dataset is."""
        part = self._dataset.shard(num_shards=self.shards(), index=number)
        part.set_epoch(epoch)
        return iter(part)


class DividedStream:
    """A torch `IterableDataset` that divides itself by `get_worker_info()`, into shards."""

    def __init__(self, dataset: Any, count: int) -> None:
        self._dataset, self._count = dataset, count
        self.repeatable = bool(getattr(dataset, "repeatable", False))
        if count > 1:
            self._check_division()

    def shards(self) -> int:
        """Return the number of shards."""
        return self._count

    def shard_in_epoch(self, number: int, epoch: int) -> Iterator[Any]:
        """Yield what the dataset yields in that worker of that many."""
        if hasattr(self._dataset, "set_epoch"):
            self._dataset.set_epoch(epoch)
        with self._as_worker(number):
            source = iter(self._dataset)
            if source is self._dataset:  # it is its own iterator: shards would share its state
                source = iter(deepcopy(self._dataset))
        while True:
            with self._as_worker(number):
                try:
                    sample = next(source)
                except StopIteration:
                    return
            yield sample

    @contextmanager
    def _as_worker(self, number: int) -> Iterator[None]:
        before = torch_worker._worker_info
        torch_worker._worker_info = torch_worker.WorkerInfo(
            id=number, num_workers=self._count, seed=number, dataset=self._dataset
        )
        try:
            yield
        finally:
            torch_worker._worker_info = before

    def _check_division(self) -> None:
        """Raise if two shards begin alike: the dataset yields everything in each."""
        first, second = (_begins(self.shard_in_epoch(number, 0)) for number in (0, 1))
        if first == second and first[0]:
            raise BadTrainingError(
                f"shards 0 and 1 of {type(self._dataset).__name__} begin with the same samples: its "
                "__iter__ does not divide them by torch.utils.data.get_worker_info(); let it, or leave "
                "out shards="
            )


def as_shards(dataset: Any, count: int | None) -> Any:
    """Return a dataset of shards for a stream that has or can be given some, else None."""
    if callable(getattr(dataset, "shards", None)):
        return dataset
    if is_stream(dataset):
        if count:
            return DividedStream(dataset, count)
        if hasattr(dataset, "num_shards") and hasattr(dataset, "shard") and dataset.num_shards > 1:
            return HubShards(dataset)
    elif count:
        raise BadTrainingError(
            f"shards= is for streams: {type(dataset).__name__} has len() and dataset[i]; leave it out"
        )
    return None


def is_stream(dataset: Any) -> bool:
    """Whether a dataset can only be read from start to end."""
    indexed = hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__")
    return isinstance(dataset, IterableDataset) or (hasattr(dataset, "__iter__") and not indexed)


def _begins(stream: Iterator[Any]) -> tuple[int, int, float]:
    sketch, samples = Sketch(), list(islice(stream, ALIKE))
    for sample in samples:
        sketch.add(sample)
    return len(samples), sketch.exact, sketch.value
