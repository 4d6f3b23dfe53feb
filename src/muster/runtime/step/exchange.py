"""Tensors that workers pass to each other in the middle of a step, in the order of their ranks.

Through the first worker, beside the sums of gradients: with tags of their own, messages of both kinds
may pass each other. What is sent is small (statistics, embeddings), and everyone computes with the same
rows in the same order.
"""

from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BrokenGroupError
from muster.runtime.members.crew import Crew
from muster.runtime.step.engine import StepEngine

TAG = 1 << 29
"""Of rows; chunks of gradients have small tags, see `comm/sharded.py`."""


class RowExchange:
    """One worker's side of the exchanges of its steps."""

    def __init__(self, engine: StepEngine) -> None:
        self._engine = engine

    @property
    def active(self) -> bool:
        """Whether there are others to exchange with now."""
        crew = self._engine.crew
        return self._engine.buckets.watching and crew is not None and crew.workers > 1

    @property
    def rank(self) -> int:
        """This worker's place among the others."""
        return self._engine.crew.rank if self._engine.crew else 0

    @property
    def void(self) -> bool:
        """Whether the step is redone: what is exchanged does not matter."""
        return self._engine.void

    @property
    def total(self) -> int:
        """Samples of the step over all workers."""
        return self._engine.part.total

    @property
    def counts(self) -> bool:
        """Whether this worker has samples; if not, its batch is a stand-in."""
        return self._engine.part.count > 0

    def rows(self, mine: Tensor) -> Tensor:
        """Return every worker's tensor of this shape, stacked by rank, where `mine` is.

        If a member is lost, the step is void, and everything goes on with what there is.
        """
        engine = self._engine
        engine.exchanged = True
        crew = engine.crew
        if crew is None or engine.void or mine.numel() == 0:
            return mine[None]
        try:
            return _gathered(crew, mine.detach().cpu().contiguous()).to(mine.device)
        except BrokenGroupError:
            engine.lose()
            return mine[None]

    def together(self, mine: Tensor) -> Tensor:
        """Return the samples (rows) of all workers, by rank; gradients flow back to each."""
        if not self.active:
            return mine
        gathered: Tensor = _Gather.apply(mine, self)
        return gathered


def _gathered(crew: Crew, mine: Tensor) -> Tensor:
    group, workers = crew.group, range(1, crew.workers)
    assert group is not None
    found = torch.empty((crew.workers, *mine.shape), dtype=mine.dtype)
    if crew.rank:
        sent = group.send(mine, 0, TAG)
        group.receive(found, 0, TAG).wait()
        sent.wait()
        return found
    found[0] = mine
    for arrival in [group.receive(found[rank], rank, TAG) for rank in workers]:
        arrival.wait()
    for sent in [group.send(found, rank, TAG) for rank in workers]:
        sent.wait()
    return found


class _Gather(torch.autograd.Function):
    """All workers' rows; backward, each gets the sum of what they all did with its rows."""

    @staticmethod
    def forward(ctx: Any, mine: Tensor, exchange: RowExchange) -> Tensor:
        count = len(mine) if exchange.counts else 0
        counts = [int(each) for each in exchange.rows(torch.tensor([count]))[:, 0]]
        room = mine.new_zeros((max(*counts, 1), *mine.shape[1:]))
        room[:count] = mine[:count]
        rows = exchange.rows(room)
        ctx.exchange, ctx.count, ctx.shape = exchange, count, mine.shape
        ctx.first = sum(counts[: exchange.rank])
        if exchange.void:  # as many rows as usual: the user's code goes on with them
            return mine.new_zeros((max(exchange.total, len(mine)), *mine.shape[1:]))
        return torch.cat([row[:each] for row, each in zip(rows, counts, strict=True)])

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        summed = ctx.exchange.rows(grad).sum(0)
        found = grad.new_zeros(ctx.shape)
        if not ctx.exchange.void:
            found[: ctx.count] = summed[ctx.first : ctx.first + ctx.count]
        return found, None
