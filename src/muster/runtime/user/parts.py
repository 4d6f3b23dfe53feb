"""Micro-batches: a share of the batch in parts that fit into memory."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from muster.runtime.errors import BadTrainingError
from muster.runtime.shape.trace import tensors


def rows_of(batch: Any) -> int:
    """Return the samples of a batch: the first dimension of its first tensor."""
    found = next((each for each in tensors(batch) if each.dim()), None)
    if found is None:
        raise BadTrainingError(
            "the batch has no tensor to cut into micro-batches: leave out micro_batch"
        )
    return int(found.shape[0])


def split(batch: Any, rows: int, first: int, last: int) -> Any:
    """Return the samples [first, last) of a batch; what is not by sample stays as it is."""
    if isinstance(batch, Tensor):
        return batch[first:last] if batch.dim() and batch.shape[0] == rows else batch
    if isinstance(batch, Mapping):
        return {key: split(value, rows, first, last) for key, value in batch.items()}
    if isinstance(batch, list | tuple):
        if len(batch) == rows and not any(isinstance(each, Tensor | list | tuple) for each in batch):
            return batch[first:last]
        parts = [split(each, rows, first, last) for each in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def micro_size(given: int | str | None, batch: int) -> int | None:
    """Return the samples of a micro-batch to begin with; None: a share is one batch."""
    if given is None:
        return None
    if given == "auto":
        return batch
    if not isinstance(given, int) or given < 1:
        raise BadTrainingError(f'micro_batch is {given!r}: give a number of samples, or "auto"')
    return given
