"""Loads samples by id, those of the next step ahead of time, in a thread.

If the shares change meanwhile, samples still needed are kept and only the others are loaded. With
`augment=True`, `torch`, `random` and `np.random` are seeded by (seed, epoch, sample) before each
`dataset[i]`, so a sample looks the same on any worker and after a lost step; then they are restored, so
dropout is unaffected. These generators are global, so such samples are loaded within the step, or by
processes (`processes.py`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from muster.runtime.data.fingerprint import Fingerprint, fingerprint
from muster.runtime.data.reader import Collate, SampleReader
from muster.runtime.errors import BadTrainingError
from muster.runtime.shape.trace import mapped


class BatchSource(Protocol):
    """Batches of samples by their ids, those of coming steps ahead of time."""

    depth: int
    """Coming steps to tell it of."""

    def load(self, ids: Tensor | Sequence[int], epoch: int = 0) -> Any:
        """Return the batch of these samples."""

    def expect(self, ids: Tensor | Sequence[int], epoch: int = 0) -> None:
        """Load samples in the background that a coming `load` will probably want; idempotent."""

    def fingerprint(self) -> Fingerprint:
        """Probe the dataset."""

    def close(self) -> None:
        """End what loads in the background."""


class Loader(BatchSource):
    """Loads batches of a dataset; `collate` builds a batch from a list of samples, as in torch."""

    depth = 1

    def __init__(
        self,
        dataset: Any,
        collate: Collate | None = None,
        threads: int = 1,
        seed: int = 0,
        augment: bool = False,
        pin: bool = False,
    ) -> None:
        """`threads`: load ahead of the step; 0: load within it. With one thread, only one uses the
        dataset at a time. `augment`: see above. `pin`: into memory that a GPU can copy from."""
        self._reader, self._pin = SampleReader(dataset, collate, seed, augment), pin
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
        wanted = numbers(ids)
        ahead = self._expected(wanted)
        if ahead and ahead.ids == wanted:
            return ahead.batch.result()
        if self._tensors is not None:
            return self._selected(wanted)
        got = ahead.samples(wanted) if ahead else {}
        missing = [sample for sample in wanted if sample not in got]
        if missing:
            read = self._safely(self._reader.samples, missing, epoch)
            got.update(zip(missing, read, strict=True))
        return self._batch(wanted, [got[sample] for sample in wanted])

    def expect(self, ids: Tensor | Sequence[int], epoch: int = 0) -> None:
        wanted = numbers(ids)
        if self._pool is None or not wanted or (self._ahead and self._ahead.ids == wanted):
            return
        if self._ahead is not None:
            self._ahead.forget()
        if self._tensors is not None:
            self._ahead = _Ahead(wanted, [], self._pool.submit(self._selected, wanted))
            return
        size = -(-len(wanted) // self._threads)
        cuts = [wanted[first : first + size] for first in range(0, len(wanted), size)]
        parts = [(part, self._pool.submit(self._reader.samples, part, epoch)) for part in cuts]
        # Threads are served in order, so this one waits only for parts in progress.
        self._ahead = _Ahead(wanted, parts, self._pool.submit(self._joined, wanted, parts))

    def fingerprint(self) -> Fingerprint:
        found: Fingerprint = self._safely(fingerprint, self._reader.dataset)
        return found

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
        return pinned(batch) if self._pin else batch

    def _safely(self, use: Callable[..., Any], *args: Any) -> Any:
        """Use the dataset in the loading thread if there is one: it need not be thread-safe."""
        return self._pool.submit(use, *args).result() if self._pool else use(*args)

    def _joined(self, ids: list[int], parts: "list[_Part]") -> Any:
        return self._batch(ids, [sample for _, part in parts for sample in part.result()])

    def _batch(self, ids: list[int], samples: list[Any]) -> Any:
        return self._pinned(self._reader.batch(ids, samples))


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


def pinned(batch: Any) -> Any:
    """Return a batch in memory that a GPU can copy from."""
    return mapped(batch, Tensor.pin_memory)


def numbers(ids: Tensor | Sequence[int]) -> list[int]:
    """Return ids as plain numbers."""
    return ids.tolist() if isinstance(ids, Tensor) else list(ids)
