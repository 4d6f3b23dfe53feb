"""Measures the gradient's noise in some of the steps, from what a step computes anyway.

With several workers: the squared norm of each one's own gradient, before it is summed, against that of
the sum. One pass over the gradients in a step of eight, and one number in the ballot. A single worker
compares a part of its batch with the whole: the first micro-batch, or the first half of its losses,
whose backward pass is done by itself in a step of 32.
"""

from collections.abc import Iterable, Sequence
from math import isfinite

import torch
from torch import Tensor

from muster.runtime.members.ballot import Vote
from muster.runtime.state.batching import NoiseScale

TOGETHER, ALONE = 8, 32
"""Steps between measurements with several workers and with one. The backward pass of half a batch costs
up to two thirds of a step: 2 % of 32."""
HALF = (torch.float16, torch.bfloat16)


class NoiseProbe:
    """One worker's measurements of the step under way."""

    def __init__(self) -> None:
        self.active = False
        """Whether this step is measured."""
        self._squares: list[Tensor] = []
        self._part: tuple[float, int] | None = None

    def begin(self, step: int, wanted: bool, alone: bool) -> None:
        """Begin a step; early ones are measured at 1, 2, 4, ... so that something is known soon."""
        every = ALONE if alone else TOGETHER
        self.active = wanted and (step % every == 0 or (step < every and step & (step - 1) == 0))
        self._squares, self._part = [], None

    def take(self, gradient: Tensor) -> None:
        """Take a worker's own gradient before it is summed."""
        self._squares.append(square(gradient))

    def take_part(self, parameters: Iterable[Tensor], rows: int, total: int) -> None:
        """Take the gradient of the first rows of a single worker's batch."""
        found = sum(float(square(p.grad)) for p in parameters if p.grad is not None)
        self._part = found * (total / rows) ** 2, rows

    @property
    def has_part(self) -> bool:
        """Whether the first part of the batch was taken."""
        return self._part is not None

    def own(self) -> float:
        """Return the squared norm of this worker's part of the sum; 0: not measured."""
        return float(sum(float(each) for each in self._squares))

    def conclude(self, noise: NoiseScale, votes: Sequence[Vote], summed: Iterable[Tensor]) -> None:
        """Add what this step shows, given all workers' votes and the summed gradients."""
        workers = [vote for vote in votes if vote.samples]
        total = sum(vote.samples for vote in workers)
        if self._part is not None:
            small, few = self._part[0], float(self._part[1])
        elif len(workers) > 1 and all(vote.square for vote in workers):
            # Weighted by samples, the mean square of k workers is that of total / k samples.
            small = sum(vote.square * total / vote.samples for vote in workers)
            few = total / len(workers)
        else:
            return
        whole = sum(float(square(each)) for each in summed)
        if isfinite(small) and isfinite(whole) and few < total:
            noise.add(small, few, whole, total)


def square(tensor: Tensor) -> Tensor:
    """Return the squared norm of a tensor."""
    values = tensor.coalesce().values() if tensor.is_sparse else tensor
    kind = torch.float32 if tensor.dtype in HALF else None
    norm: Tensor = torch.linalg.vector_norm(values, dtype=kind)
    return norm.square()
