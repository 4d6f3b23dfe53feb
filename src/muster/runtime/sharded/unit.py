"""Units: parameters that are gathered together, as one flat tensor of one type.

A unit's parameters are the user's own objects. While it rests, each has the elements that this worker
keeps, as a flat tensor: that is what the optimiser works on. While it is in use, each is a view of the
gathered flat, in its own shape. The flat's storage is emptied in between, not replaced: what autograd
has saved of it is valid again once it is refilled.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from muster.runtime.sharded.exchange import ShareExchange, ShareTransfer
from muster.runtime.sharded.layout import ShareLayout


@dataclass(frozen=True, slots=True)
class Run:
    """Elements [begin, end) of a unit, all of one parameter, that this worker keeps for an owner."""

    begin: int
    end: int
    owner: int


def runs_of(slot: tuple[int, int], layout: ShareLayout, rank: int, length: int) -> list[Run]:
    """Return what a rank keeps of the elements of a slot, in order."""
    found = []
    for owner in layout.kept(rank):
        begin, end = layout.share(owner, length)
        begin, end = max(begin, slot[0]), min(end, slot[1])
        if begin < end:
            found.append(Run(begin, end, owner))
    return found


class Unit:
    """One flat of parameters; `number` is the same on all members."""

    def __init__(self, number: int, parameters: Sequence[Any], places: Sequence[int]) -> None:
        """`places`: the parameters' numbers in the model."""
        self.number, self.parameters, self.places = number, list(parameters), list(places)
        self.trained = bool(parameters[0].requires_grad)
        self.shapes = [parameter.shape for parameter in parameters]
        self.slots = list(pairwise(accumulate((p.numel() for p in parameters), initial=0)))
        self.length = self.slots[-1][1]
        # Before the first formation everything is here, wherever the user has put it.
        for parameter in parameters:
            parameter.data = parameter.data.contiguous()
        self.runs = [[Run(*slot, 0)] for slot in self.slots]
        self.local: list[Tensor] = [p.data.view(-1) for p in parameters]
        """What this worker keeps of each parameter: its runs, one after the other."""
        self._layout, self._rank = ShareLayout(("",)), 0
        self._full = torch.empty(0)
        self._views: list[Tensor] = []
        self._coming: ShareTransfer | None = None
        self._grads: Tensor | None = None
        self._sums: Tensor | None = None
        self._arriving: list[ShareTransfer] = []
        self._missing: set[int] = set()

    # what this worker keeps

    def keep(self, layout: ShareLayout, rank: int, device: torch.device) -> list[list[Run]]:
        """Make room for a formation's part; return the runs of each parameter, to be filled."""
        self._layout, self._rank = layout, rank
        self.runs = [runs_of(slot, layout, rank, self.length) for slot in self.slots]
        sizes = [sum(run.end - run.begin for run in runs) for runs in self.runs]
        kind = self.parameters[0].dtype
        flat = torch.empty(sum(sizes), dtype=kind, device=device)
        self.local = list(flat.split(sizes))
        self._renew(torch.empty(self.span * len(layout.tasks), dtype=kind, device=device))
        for parameter, local in zip(self.parameters, self.local, strict=True):
            parameter.data, parameter.grad = local, None
        return self.runs

    @property
    def span(self) -> int:
        """Elements of a share."""
        return self._layout.span(self.length)

    def own(self) -> Iterable[tuple[int, Run, Tensor]]:
        """Yield what this worker owns: the index of the parameter, the run, its elements."""
        for index, runs in enumerate(self.runs):
            at = 0
            for run in runs:
                size = run.end - run.begin
                if run.owner == self._rank:
                    yield index, run, self.local[index][at : at + size]
                at += size

    # gathering

    def start(self, exchange: ShareExchange) -> None:
        """Begin to gather the flat. Idempotent."""
        if self._coming is not None:
            return
        self._allocate()
        mine = self._full[exchange.rank * self.span : (exchange.rank + 1) * self.span]
        parts = [values for _, _, values in self.own()]
        if parts:
            torch.cat(parts, out=mine[: sum(part.numel() for part in parts)])
        self._coming = exchange.gather(self._full, self.number)

    def use(self) -> None:
        """Wait for the flat and give the parameters their whole values."""
        assert self._coming is not None
        self._coming.wait()
        self._coming = None
        self._show()

    def pretend(self) -> None:
        """Give the parameters zeros: the step is void, but the user's code goes on to its end."""
        if self._coming is not None:  # a lost member may still be writing into it
            self._coming = None
            self._renew(torch.empty_like(self._full))
        self._allocate()
        self._full.zero_()
        self._show()

    def rest(self) -> None:
        """Give the parameters what this worker keeps, and free the flat."""
        for parameter, local in zip(self.parameters, self.local, strict=True):
            parameter.data = local
        self._full.untyped_storage().resize_(0)

    def _show(self) -> None:
        for parameter, view in zip(self.parameters, self._views, strict=True):
            parameter.data = view

    def _allocate(self) -> None:
        self._full.untyped_storage().resize_(self._full.numel() * self._full.element_size())

    def _renew(self, full: Tensor) -> None:
        """Replace the flat by an empty one."""
        self._full, self._coming = full, None
        pairs = zip(self.slots, self.shapes, strict=True)
        self._views = [full[begin:end].view(shape) for (begin, end), shape in pairs]
        full.untyped_storage().resize_(0)

    # gradients

    def begin(self) -> None:
        """Begin a step: no gradient is here."""
        self._missing = set(range(len(self.parameters))) if self.trained else set()
        self._grads = self._sums = None
        self._arriving = []

    def collect(self, index: int, weight: bool) -> bool:
        """Take a parameter's gradient, as zeros without weight; return whether it was the last."""
        parameter, grads = self.parameters[index], self._room()
        begin, end = self.slots[index]
        if weight:
            grads[begin:end].view(self.shapes[index]).copy_(parameter.grad)
        else:
            grads[begin:end].zero_()
        parameter.grad = None
        self._missing.discard(index)
        return not self._missing

    def _room(self) -> Tensor:
        if self._grads is None:
            self._grads = torch.empty_like(self._full)
            self._grads[self.length :] = 0
        return self._grads

    @property
    def incomplete(self) -> bool:
        """Whether gradients are missing that have not been summed."""
        return self.trained and self._sums is None

    def reduce(self, exchange: ShareExchange) -> None:
        """Begin to sum the gradients; those that did not come are zero."""
        grads = self._room()
        for index in self._missing:
            begin, end = self.slots[index]
            grads[begin:end] = 0
        kept = self._layout.kept(self._rank)
        self._sums = torch.empty(len(kept) * self.span, dtype=grads.dtype, device=grads.device)
        self._arriving = [exchange.reduce(grads, self._share(self._rank), self.number)]

    def settle(self, exchange: ShareExchange) -> None:
        """Wait for this worker's share of the sum; begin to exchange it with the mirrors."""
        if len(self._arriving) != 1 or self._grads is None:
            return
        self._arriving.pop().wait()
        self._grads = None
        copies = [(r, self._share(r)) for r in self._layout.kept(self._rank) if r != self._rank]
        self._arriving = [exchange.mirror(self._share(self._rank), copies, self.number)]

    def finish(self) -> None:
        """Wait for the sums that this worker mirrors."""
        for transfer in self._arriving:
            transfer.wait()
        self._arriving = []

    def _share(self, owner: int) -> Tensor:
        """Return the sum of one of the shares that this worker keeps."""
        assert self._sums is not None
        place = self._layout.kept(self._rank).index(owner) * self.span
        return self._sums[place : place + self.span]

    def norm_squared(self) -> float:
        """Return the squared norm of the sum that this worker owns."""
        begin, end = self._layout.share(self._rank, self.length)
        own = self._share(self._rank)[: end - begin]
        return float(torch.linalg.vector_norm(own, dtype=torch.float64)) ** 2

    def spread(self, unused: Collection[int]) -> None:
        """Give each parameter its summed gradient; none to those unused, or not kept here."""
        assert self._sums is not None
        kept = self._layout.kept(self._rank)
        for parameter, place, runs in zip(self.parameters, self.places, self.runs, strict=True):
            if not runs or place in unused:
                continue
            parts: list[tuple[int, int]] = []
            for run in runs:
                begin = (kept.index(run.owner) - run.owner) * self.span + run.begin
                end = begin + run.end - run.begin
                if parts and parts[-1][1] == begin:  # neighbours' shares adjoin: no copy
                    begin = parts.pop()[0]
                parts.append((begin, end))
            slices = [self._sums[begin:end] for begin, end in parts]
            parameter.grad = slices[0] if len(slices) == 1 else torch.cat(slices)
        self._sums = None

    def drop(self) -> None:
        """Drop a void step."""
        self._grads = self._sums = None
        self._arriving = []
        if self._coming is not None:
            self._renew(torch.empty_like(self._full))
        for parameter in self.parameters:
            parameter.grad = None
        self.rest()
