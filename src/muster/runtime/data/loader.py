"""Loads samples by id, those of the next step ahead of time, in a thread.

If the shares change meanwhile, samples still needed are kept and only the others are loaded. With
`augment=True`, `torch`, `random` and `np.random` are seeded by (seed, epoch, sample) before each
`dataset[i]`, so a sample looks the same on any worker and after a lost step; then they are restored, so
dropout is unaffected. These generators are global, so such samples are loaded within the step.
"""

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from muster.runtime.data.samples import mixed_seed
from muster.runtime.errors import BadTrainingError
from muster.runtime.shape.trace import mapped


class Loader:
    """Loads batches of a dataset; `collate` builds a batch from a list of samples, as in torch."""

    def __init__(
        self,
        dataset: Any,
        collate: Callable[[list[Any]], Any] | None = None,
        threads: int = 1,
        seed: int = 0,
        augment: bool = False,
        pin: bool = False,
    ) -> None:
        """`threads`: load ahead of the step; 0: load within it. With one thread, only one uses the
        dataset at a time. `augment`: see above. `pin`: into memory that a GPU can copy from."""
        self._dataset, self._collate = dataset, collate or default_collate
        self._seed, self._augment, self._pin = seed, augment, pin
        # A subclass may do anything in its __getitem__.
        self._tensors: tuple[Tensor, ...] | None = (
            dataset.tensors
            if type(dataset) is TensorDataset and collate is None and not augment
            else None
        )
        self._threads = 0 if augment else threads
        self._pool = ThreadPoolExecutor(self._threads, "muster-load") if self._threads else None
        self._ahead: _Ahead | None = None

    def load(self, ids: Tensor | Sequence[int], epoch: int = 0) -> Any:
        """Return the batch of these samples."""
        wanted = _numbers(ids)
        ahead = self._expected(wanted)
        if ahead and ahead.ids == wanted:
            return ahead.batch.result()
        if self._tensors is not None:
            return self._selected(wanted)
        got = ahead.samples(wanted) if ahead else {}
        missing = [sample for sample in wanted if sample not in got]
        got.update(zip(missing, self._read_safely(missing, epoch), strict=True))
        return self._collated(wanted, [got[sample] for sample in wanted])

    def expect(self, ids: Tensor | Sequence[int]) -> None:
        """Load samples in the background that the next `load` will probably want."""
        wanted = _numbers(ids)
        if self._pool is None or not wanted:
            return
        if self._ahead is not None:
            self._ahead.forget()
        if self._tensors is not None:
            self._ahead = _Ahead(wanted, [], self._pool.submit(self._selected, wanted))
            return
        size = -(-len(wanted) // self._threads)
        cuts = [wanted[first : first + size] for first in range(0, len(wanted), size)]
        parts = [(part, self._pool.submit(self._read, part, 0)) for part in cuts]
        # Threads are served in order, so this one waits only for parts in progress.
        self._ahead = _Ahead(wanted, parts, self._pool.submit(self._joined, wanted, parts))

    def close(self) -> None:
        """End the threads, after what they are loading."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool, self._ahead = None, None

    def _expected(self, wanted: list[int]) -> "_Ahead | None":
        """Return what is being loaded if some of it is wanted; else keep it for after a lost step."""
        ahead = self._ahead
        if ahead is None or not set(wanted).intersection(ahead.ids):
            return None
        self._ahead = None
        return ahead

    def _selected(self, ids: list[int]) -> list[Tensor]:
        tensors = self._tensors or ()
        found = [tensor.index_select(0, torch.tensor(ids, device=tensor.device)) for tensor in tensors]
        return list(self._pinned(found))

    def _pinned(self, batch: Any) -> Any:
        return mapped(batch, Tensor.pin_memory) if self._pin else batch

    def _read_safely(self, ids: list[int], epoch: int) -> list[Any]:
        """Use the loading thread if there is one: a dataset need not be thread-safe."""
        if not ids:
            return []
        return (
            self._pool.submit(self._read, ids, epoch).result() if self._pool else self._read(ids, epoch)
        )

    def _read(self, ids: list[int], epoch: int) -> list[Any]:
        if self._augment:
            with _generators_kept():
                return [self._one(sample, epoch) for sample in ids]
        together = getattr(self._dataset, "__getitems__", None)
        if together is not None:
            with suppress(Exception):  # the loop below finds out which one is bad
                found = list(together(ids))
                if len(found) == len(ids):
                    return found
        return [self._one(sample, epoch) for sample in ids]

    def _one(self, sample: int, epoch: int) -> Any:
        try:
            if self._augment:
                _seed_generators(mixed_seed(self._seed, epoch, sample))
            return self._dataset[sample]
        except Exception as problem:
            raise BadTrainingError(
                f"sample {sample} of the dataset could not be loaded: {_said(problem)}"
            ) from problem

    def _joined(self, ids: list[int], parts: "list[_Part]") -> Any:
        return self._collated(ids, [sample for _, part in parts for sample in part.result()])

    def _collated(self, ids: list[int], samples: list[Any]) -> Any:
        try:
            return self._pinned(self._collate(samples))
        except Exception as problem:
            raise BadTrainingError(
                f"samples {_few(ids)} could not be collated: {_said(problem)}; "
                "pass a `collate` that can"
            ) from problem


_Part = tuple[list[int], "Future[list[Any]]"]
"""Ids, and their samples."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """Samples being loaded, in parts and as a batch."""

    ids: list[int]
    parts: list[_Part]
    batch: "Future[Any]"

    def samples(self, wanted: Sequence[int]) -> dict[int, Any]:
        """Return the wanted ones; errors count only for those."""
        self.batch.cancel()
        found: dict[int, Any] = {}
        for part, future in self.parts:
            asked = set(part).intersection(wanted)
            if not asked:
                future.cancel()
                continue
            # A bad sample is read again if it is wanted, and fails then.
            with suppress(BadTrainingError):
                loaded = dict(zip(part, future.result(), strict=True))
                found.update((sample, loaded[sample]) for sample in asked)
        return found

    def forget(self) -> None:
        """Cancel what has not started."""
        for future in (self.batch, *(part for _, part in self.parts)):
            future.cancel()


@contextmanager
def _generators_kept() -> Iterator[None]:
    """Restore the process's random generators afterwards."""
    numpy = sys.modules.get("numpy")
    states = torch.get_rng_state(), random.getstate(), numpy.random.get_state() if numpy else None
    try:
        yield
    finally:
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        if numpy:
            numpy.random.set_state(states[2])


def _seed_generators(seed: int) -> None:
    # Not torch.manual_seed: it would also seed the devices' generators, which are not restored.
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy:
        numpy.random.seed(seed % 2**32)


def _numbers(ids: Tensor | Sequence[int]) -> list[int]:
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)


def _said(problem: Exception) -> str:
    return f"{type(problem).__name__}: {problem}"


def _few(ids: list[int]) -> str:
    return ", ".join(map(str, ids[:5])) + (f" and {len(ids) - 5} more" if len(ids) > 5 else "")
