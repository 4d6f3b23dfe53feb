"""What a loss is a mean of: tokens or samples, and whether the model takes their number.

Workers hold unequal shares, so a share's loss counts by what it is a mean of. Whether that is
understood rightly is tried once, on a few samples: the loss of all must be the mean of the losses of
two parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError
from muster.runtime.shape.trace import tensors

IGNORED = -100
"""The label of what is not counted, as everywhere in transformers."""
NOISE = 0.02
"""Relative: more than bfloat16 adds, less than a loss that is no mean."""

Batch = dict[str, Any]
Loss = Callable[[Batch, Tensor | None], Tensor]
"""The loss of a batch, divided by a number of items if one is given."""


@dataclass(frozen=True, slots=True)
class LossKind:
    """How a loss follows from a batch's items."""

    divides: bool
    """Whether it is a sum over items, divided by the number it is given; else their mean."""
    shifts: bool
    """Whether the first label of each row is never predicted."""

    def items(self, batch: Batch) -> int:
        """Return how many items the loss of a batch is a mean of: labels that count, or rows."""
        return items_of(batch, self.shifts)

    def total(self, loss: Loss, batch: Batch) -> Tensor:
        """Return the sum of the items' losses."""
        if self.divides:
            return loss(batch, torch.ones((), device=_device(batch)))
        return loss(batch, None) * self.items(batch)


@torch.no_grad()
def kind_of(loss: Loss, batch: Batch, shifts: bool, takes_items: bool) -> LossKind:
    """Find out the kind of a loss on a few samples; `BadTrainingError` if it is none of ours."""
    kind = LossKind(takes_items and _divides(loss, batch), shifts)
    cut = max(1, rows(batch) // 3)
    parts = [part for part in (_rows(batch, 0, cut), _rows(batch, cut, rows(batch))) if part]
    if len(parts) < 2:
        return kind  # one sample, or tensors without a row for each
    whole = float(kind.total(loss, batch))
    both = sum(float(kind.total(loss, part)) for part in parts if kind.items(part))
    if abs(whole - both) > NOISE * max(abs(whole), abs(both)):
        raise BadTrainingError(
            "the loss is not a mean over samples or labels (that of some samples together is "
            f"{whole:.4g}, of the same in two parts {both:.4g}): it would depend on how workers share "
            "the batch. Return a sum, divided by num_items_in_batch, or a mean over labels that are "
            "not -100"
        )
    return kind


def items_of(batch: Any, shifts: bool) -> int:
    """Return how many items a mean loss is over: labels that count, or rows if there are none."""
    labels = batch.get("shift_labels", batch.get("labels")) if isinstance(batch, Mapping) else None
    if not isinstance(labels, Tensor) or labels.is_floating_point():
        return rows(batch)
    if shifts and "shift_labels" not in batch:
        labels = labels[..., 1:]
    return int(labels.ne(IGNORED).sum())


def rows(batch: Any) -> int:
    """Return the samples of a batch."""
    return next((len(each) for each in tensors(batch) if each.dim()), 0)


def spread(total: Tensor, batch: Any) -> Tensor:
    """Return losses, one per sample of a batch, whose sum this is."""
    count = rows(batch)
    return (total / count).expand(count)


def plain(batch: Any) -> Any:
    """Return a batch of tokens as a dictionary: the runtime looks into those."""
    return dict(batch) if isinstance(batch, Mapping) else batch


def _divides(loss: Loss, batch: Batch) -> bool:
    one = torch.ones((), device=_device(batch))
    once, twice = float(loss(batch, one)), float(loss(batch, 2 * one))
    return abs(once - 2 * twice) <= NOISE * abs(once) and once != twice


def _rows(batch: Batch, begin: int, end: int) -> Batch | None:
    """Return some of the rows; None if not every tensor has one for each sample."""
    count = rows(batch)
    tensors = [each for each in batch.values() if isinstance(each, Tensor)]
    if begin >= end or any(each.dim() == 0 or len(each) != count for each in tensors):
        return None
    return {k: v[begin:end] if isinstance(v, Tensor) else v for k, v in batch.items()}


def _device(batch: Batch) -> Any:
    return next((each.device for each in batch.values() if isinstance(each, Tensor)), "cpu")
