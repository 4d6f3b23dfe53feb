"""Measures the gradient's noise in some of the steps, from what a step computes anyway.

With several workers: the squared norm of each one's own gradient, before it is summed, against that of
the sum. One pass over the gradients in a step of eight, and one number in the ballot. A single worker
compares a part of its batch with the whole: the first micro-batch, or the first half of its losses,
whose backward pass is done by itself in a step of 32. Early steps are measured more often.

Gradients of one step after the other would cost nothing, but are no independent samples: with momentum
they told four times the noise at eight times the batch.
"""

from collections.abc import Iterable, Sequence
from math import isfinite
from typing import Any

import torch
from torch import Tensor

from muster.runtime.members.ballot import Vote
from muster.runtime.state.batching import NoiseScale

TOGETHER, ALONE = 8, 32
"""Steps between measurements with several workers and with one. The backward pass of half a batch costs
up to two thirds of a step: 2 % of 32."""
FIRST = 4
"""The first step that is measured: those before say little of the training."""
OFTEN, SELDOM = 4, 2
"""Measurements while the steps double, until those come into force: together and alone."""
HALF = (torch.float16, torch.bfloat16)


class NoiseProbe:
    """One worker's measurements of the step under way."""

    def __init__(self) -> None:
        self.active = False
        """Whether this step is measured."""
        self._squares: list[Tensor] = []
        self._part: list[tuple[Any, Tensor]] = []
        """Parameters, and their gradients of the first rows."""
        self._rows = 0
        self._halves = 0.0
        """Mean square of the gradients of two parts, as in `conclude`; 0: not measured."""

    def begin(self, step: int, wanted: bool, alone: bool) -> None:
        """Begin a step; early ones are measured more often, since the noise grows fast then."""
        self.active = wanted and is_measured(step, alone)
        self._squares, self._part, self._halves = [], [], 0.0

    def take(self, gradient: Tensor) -> None:
        """Take a worker's own gradient before it is summed."""
        self._squares.append(square(gradient))

    def take_part(self, parameters: Iterable[Any], rows: int) -> None:
        """Put the gradient of the first rows of a single worker's batch aside."""
        self._part, self._rows = [(p, p.grad) for p in parameters if p.grad is not None], rows
        for parameter, _ in self._part:
            parameter.grad = None

    def join_parts(self, total: int) -> None:
        """Add the gradient of the first rows to that of the others, and compare them."""
        first = squares(grad for _, grad in self._part)
        rest = squares(p.grad for p, _ in self._part if p.grad is not None)
        for parameter, grad in self._part:
            parameter.grad = grad if parameter.grad is None else parameter.grad.add_(grad)
        # As if two workers had taken them: see `conclude`.
        self._halves = first * total / self._rows + rest * total / (total - self._rows)
        self._part = []

    @property
    def has_part(self) -> bool:
        """Whether the first part of the batch was put aside."""
        return bool(self._part)

    def own(self) -> float:
        """Return the squared norm of this worker's part of the sum; 0: not measured."""
        return added(self._squares)

    def conclude(self, noise: NoiseScale, votes: Sequence[Vote], summed: Iterable[Tensor]) -> None:
        """Add what this step shows, given all workers' votes and the summed gradients."""
        workers = [vote for vote in votes if vote.samples]
        total = sum(vote.samples for vote in workers)
        if self._halves:
            small, few = self._halves, total / 2
        elif len(workers) > 1 and all(vote.square for vote in workers):
            # Weighted by samples, the mean square of k workers is that of total / k samples.
            small = sum(vote.square * total / vote.samples for vote in workers)
            few = total / len(workers)
        else:
            return
        whole = squares(summed)
        if isfinite(small) and isfinite(whole) and few < total:
            noise.add(small, few, whole, total)


def is_measured(step: int, alone: bool) -> bool:
    """Whether the noise is measured in a step."""
    most, times = (ALONE, SELDOM) if alone else (TOGETHER, OFTEN)
    every = 1 << max(0, (step // times).bit_length() - 1)
    return step >= FIRST and step % min(every, most) == 0


def square(tensor: Tensor) -> Tensor:
    """Return the squared norm of a tensor."""
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    kind = torch.float32 if tensor.dtype in HALF else None
    norm: Tensor = torch.linalg.vector_norm(values, dtype=kind)
    return norm.square()


def squares(tensors: Iterable[Tensor]) -> float:
    """Return the squared norm of all of them together."""
    return added([square(each) for each in tensors])


def added(numbers: Sequence[Tensor]) -> float:
    """Return a sum, read from the device once."""
    if len({each.device for each in numbers}) == 1:
        return float(torch.stack([each.double() for each in numbers]).sum())
    return sum(float(each) for each in numbers)
