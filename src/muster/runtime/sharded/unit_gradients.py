"""The gradients of a unit: collected in one flat, summed over the members, handed out in parts.

A step has one or more rounds (micro-batches), each of which brings every gradient once. In parts, each
round is summed to its owners, and the owners' sums of all rounds go to the mirrors at the end. A worker
that keeps the whole unit has room for all gradients anyway: it adds them up, and sums once.
"""

from collections.abc import Collection
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from muster.runtime.sharded.exchange import ShareExchange, ShareTransfer
from muster.runtime.step.flat import shaped

if TYPE_CHECKING:
    from muster.runtime.sharded.unit import Unit


class UnitGradients:
    """What a step has brought of a unit's gradients so far."""

    def __init__(self, unit: "Unit") -> None:
        self._unit = unit
        self._missing: set[int] = set()
        """Parameters without a gradient in this round."""
        self._written: set[int] = set()
        """Parameters whose place in the flat is written."""
        self._is_reduced = False
        self._flat: Tensor | None = None
        self._sums: Tensor | None = None
        """Sums of the shares that this worker keeps, in order."""
        self._arriving: Tensor | None = None
        """This worker's share of the sum under way."""
        self._transfer: ShareTransfer | None = None

    def begin(self) -> None:
        """Begin a step: no gradient is here."""
        self._flat = self._sums = self._arriving = self._transfer = None
        self._written = set()
        self.begin_round()

    def begin_round(self) -> None:
        """Begin a round: it brings every gradient again."""
        unit = self._unit
        self._missing = set(range(len(unit.parameters))) if unit.trained else set()
        self._is_reduced = False

    def lacks(self, index: int) -> bool:
        """Whether this round has not brought a parameter's gradient."""
        return index in self._missing

    @property
    def incomplete(self) -> bool:
        """Whether this round is not handed over."""
        return self._unit.trained and not self._is_reduced

    def collect(self, index: int, counts: bool) -> bool:
        """Take a parameter's gradient, as zeros unless it counts; return whether it was the last."""
        unit, flat = self._unit, self._room()
        parameter, place = unit.parameters[index], shaped(flat, unit.slots[index], unit.shapes[index])
        if counts and index in self._written:
            place.add_(parameter.grad)
        elif counts:
            place.copy_(parameter.grad)
        elif index not in self._written:
            place.zero_()
        parameter.grad = None
        self._written.add(index)
        self._missing.discard(index)
        return not self._missing

    def reduce(self, exchange: ShareExchange, last: bool) -> None:
        """Begin to sum what this round has brought; `last`: of the step."""
        self._is_reduced, unit = True, self._unit
        if unit.whole and not last:
            return
        flat = self._room()
        for index in set(range(len(unit.parameters))) - self._written:
            flat[slice(*unit.slots[index])] = 0
        if unit.whole:
            self._transfer = exchange.sum(flat)
            return
        if self._sums is None:
            count = len(unit.layout.kept(unit.rank))
            self._sums = torch.empty(count * unit.span, dtype=flat.dtype, device=flat.device)
            self._arriving = self._share(unit.rank)
        else:
            self._arriving = torch.empty_like(self._share(unit.rank))
        self._transfer = exchange.reduce(flat, self._arriving, unit.number)

    def settle(self, exchange: ShareExchange, last: bool) -> None:
        """Wait for this worker's share of the sum; after the last round, begin to mirror it."""
        if self._arriving is None or self._transfer is None:
            return
        self._transfer.wait()
        self._transfer, self._flat, self._written = None, None, set()
        unit = self._unit
        own, arrived, self._arriving = self._share(unit.rank), self._arriving, None
        if arrived.data_ptr() != own.data_ptr():
            own += arrived
        if last:
            kept = unit.layout.kept(unit.rank)
            copies = [(owner, self._share(owner)) for owner in kept if owner != unit.rank]
            self._transfer = exchange.mirror(own, copies, unit.number)

    def finish(self) -> None:
        """Wait for all sums that this worker keeps."""
        if self._transfer is not None:
            self._transfer.wait()
            self._transfer = None
        if self._unit.whole:
            self._sums, self._flat = self._flat, None

    def own(self) -> Tensor:
        """Return the sum that this worker owns."""
        begin, end = self._unit.layout.share(self._unit.rank, self._unit.length)
        return self._share(self._unit.rank)[: end - begin]

    def spread(self, unused: Collection[int]) -> None:
        """Give each parameter its summed gradient; none to those unused, or not kept here."""
        assert self._sums is not None
        unit = self._unit
        kept = unit.layout.kept(unit.rank)
        for parameter, place, runs in zip(unit.parameters, unit.places, unit.runs, strict=True):
            if not runs or place in unused:
                continue
            parts: list[tuple[int, int]] = []
            for run in runs:
                begin = (kept.index(run.owner) - run.owner) * unit.span + run.begin
                end = begin + run.end - run.begin
                if parts and parts[-1][1] == begin:  # neighbours' shares adjoin: no copy
                    begin = parts.pop()[0]
                parts.append((begin, end))
            slices = [self._sums[begin:end] for begin, end in parts]
            parameter.grad = slices[0] if len(slices) == 1 else torch.cat(slices)
        self._sums = None

    def _room(self) -> Tensor:
        if self._flat is None:
            self._flat = torch.empty_like(self._unit.full)
            self._flat[self._unit.length :] = 0
        return self._flat

    def _share(self, owner: int) -> Tensor:
        """Return the sum of one of the shares that this worker keeps."""
        assert self._sums is not None
        unit = self._unit
        place = unit.layout.kept(unit.rank).index(owner) * unit.span
        return self._sums[place : place + unit.span]
