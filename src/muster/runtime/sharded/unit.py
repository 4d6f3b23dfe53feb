"""Units: parameters that are gathered together, as one flat tensor of one type.

A unit's parameters are the user's own objects. While it rests, each has the elements that this worker
keeps, as a flat tensor: that is what the optimiser works on. While it is in use, each is a view of the
gathered flat, in its own shape. The flat's storage is emptied in between, not replaced: what autograd
has saved of it is valid again once it is refilled. If this worker keeps the whole unit, the gathered
flat is the kept one, and there is nothing to gather or to free.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from muster.runtime.sharded.exchange import ShareExchange, ShareTransfer
from muster.runtime.sharded.layout import ShareLayout
from muster.runtime.sharded.unit_gradients import UnitGradients
from muster.runtime.step.flat import adjoining, shaped


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
        self.slots = adjoining(p.numel() for p in parameters)
        self.length = self.slots[-1][1]
        # Before the first formation everything is here, wherever the user has put it.
        for parameter in parameters:
            parameter.data = parameter.data.contiguous()
        self.runs = [[Run(*slot, 0)] for slot in self.slots]
        self.local: list[Tensor] = [p.data.view(-1) for p in parameters]
        """What this worker keeps of each parameter: its runs, one after the other."""
        self.layout, self.rank, self.whole = ShareLayout(("",)), 0, False
        """Who keeps what; this worker's place; whether it keeps everything."""
        self.full = self._kept = torch.empty(0)
        self._views: list[Tensor] = []
        self._coming: ShareTransfer | None = None
        self.gradients = UnitGradients(self)

    # what this worker keeps

    def keep(self, layout: ShareLayout, rank: int, device: torch.device) -> list[list[Run]]:
        """Make room for a formation's part; return the runs of each parameter, to be filled."""
        self.layout, self.rank, self.whole = layout, rank, layout.whole
        self.runs = [runs_of(slot, layout, rank, self.length) for slot in self.slots]
        sizes = [sum(run.end - run.begin for run in runs) for runs in self.runs]
        kind = self.parameters[0].dtype
        self._kept = torch.empty(sum(sizes), dtype=kind, device=device)
        self.local = list(self._kept.split(sizes))
        room = self.span * len(layout.tasks)
        self._renew(self._kept if self.whole else torch.empty(room, dtype=kind, device=device))
        for parameter, local in zip(self.parameters, self.local, strict=True):
            parameter.data, parameter.grad = local, None
        return self.runs

    @property
    def span(self) -> int:
        """Elements of a share."""
        return self.layout.span(self.length)

    def own(self) -> Iterable[tuple[int, Run]]:
        """Yield what this worker owns: the index of the parameter, and the run."""
        for index, runs in enumerate(self.runs):
            yield from ((index, run) for run in runs if run.owner == self.rank)

    # gathering

    def start(self, exchange: ShareExchange) -> None:
        """Begin to gather the flat. Idempotent."""
        if self._coming is not None or self.whole:
            return
        self._allocate()
        at = 0
        for owner in self.layout.kept(self.rank):  # what is kept is in order, share by share
            begin, end = self.layout.share(owner, self.length)
            self.full[begin:end] = self._kept[at : at + end - begin]
            at += end - begin
        self._coming = exchange.gather(self.full, self.number)

    def use(self) -> None:
        """Wait for the flat and give the parameters their whole values."""
        if self._coming is not None:
            self._coming.wait()
            self._coming = None
        self._show()

    def pretend(self) -> None:
        """Give the parameters zeros: the step is void, but the user's code goes on to its end."""
        if self._coming is not None:  # a lost member may still be writing into it
            self._renew(torch.empty_like(self.full))
        if not self.whole:
            self._allocate()
            self.full.zero_()
        self._show()

    def rest(self) -> None:
        """Give the parameters what this worker keeps, and free the flat."""
        for parameter, local in zip(self.parameters, self.local, strict=True):
            parameter.data = local
        if not self.whole:
            self.full.untyped_storage().resize_(0)

    def _show(self) -> None:
        for parameter, view in zip(self.parameters, self._views, strict=True):
            parameter.data = view

    def _allocate(self) -> None:
        self.full.untyped_storage().resize_(self.full.numel() * self.full.element_size())

    def _renew(self, full: Tensor) -> None:
        """Replace the flat; one that is not kept is empty until it is gathered."""
        self.full, self._coming = full, None
        pairs = zip(self.slots, self.shapes, strict=True)
        self._views = [shaped(full, *pair) for pair in pairs]
        if not self.whole:
            full.untyped_storage().resize_(0)

    def drop(self) -> None:
        """Drop a void step."""
        self.gradients.begin()
        if self._coming is not None:
            self._renew(torch.empty_like(self.full))
        for parameter in self.parameters:
            parameter.grad = None
        self.rest()
