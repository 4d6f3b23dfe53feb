"""What a worker keeps of parameters and optimiser state: cut into pieces, and built from them."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError, MusterError
from muster.runtime.sharded.layout import ShareLayout
from muster.runtime.sharded.sharded_model import ShardedModel
from muster.runtime.sharded.unit import Run, Unit
from muster.runtime.shards.ownership import Range
from muster.runtime.shards.state_pieces import ELEMENTWISE, SHARED, Piece, by_parameter, cuts, joined

VALUE = "value"
"""A parameter's own elements among the state of a piece."""


def check_sharded(before: Any, model: Any, optimizers: Sequence[Any]) -> None:
    """Raise if a model cannot be kept in parts with these optimisers; `before`: wrapped earlier."""
    if before is not None or len(optimizers) != 1:
        raise BadTrainingError("shard= is for a training of one model and one optimiser")
    (optimizer,) = optimizers
    if type(optimizer) not in ELEMENTWISE:
        names = ", ".join(kind.__name__ for kind in ELEMENTWISE)
        raise BadTrainingError(
            f"shard= keeps parameters in parts, and {type(optimizer).__name__} is not known to update "
            f"each element by itself: use one of {names}"
        )
    known = {id(parameter) for parameter in model.parameters()}
    held = [p for group in optimizer.param_groups for p in group["params"]]
    if not all(id(parameter) in known for parameter in held):
        raise BadTrainingError("shard= needs an optimiser of the model's own parameters alone")


class KeptParts:
    """This worker's parts of all units, with their optimiser state."""

    def __init__(self, shards: ShardedModel, optimizer: Any, device: torch.device) -> None:
        self._shards, self._optimizer, self._device = shards, optimizer, device
        self._places = {p: (unit, i) for unit in shards.units for i, p in enumerate(unit.places)}
        self.lengths = [unit.length for unit in shards.units]
        """Elements of each unit."""

    def all_to(self, task: str) -> tuple[Any, ...]:
        """Return the holdings of a task that has everything."""
        return ShareLayout((task,)).holdings(self.lengths)

    def elements(self, ranges: Iterable[Range]) -> list[tuple[int, int, int]]:
        """Return the parameters and their elements [begin, end) in some ranges."""
        found = []
        for range_ in ranges:
            unit = self._shards.units[range_.tensor]
            for place, (begin, end) in zip(unit.places, unit.slots, strict=True):
                low, high = max(range_.begin, begin) - begin, min(range_.end, end) - begin
                if low < high:
                    found.append((place, low, high))
        return found

    def state_of(self, ranges: Iterable[Range]) -> list[Piece]:
        """Return copies of what this worker keeps of some ranges."""
        return [
            piece
            for place, begin, end in self.elements(ranges)
            for piece in cuts(self._pieces(*self._places[place]), begin, end)
        ]

    def own(self) -> list[Piece]:
        """Return what this worker owns, not copied: all workers' together are the whole."""
        return [
            piece
            for unit in self._shards.units
            for index, run in unit.own()
            for piece in self._pieces(unit, index)
            if (piece.begin, piece.end) == _within(run, unit.slots[index])
        ]

    def keep(self, layout: ShareLayout, rank: int, pieces: Iterable[Piece]) -> None:
        """Keep the part of a rank: from the pieces, and from what this worker has."""
        given = by_parameter(pieces)
        for unit in self._shards.units:
            before = [self._pieces(unit, index) for index in range(len(unit.places))]
            fresh = unit.keep(layout, rank, self._device)
            for index, runs in enumerate(fresh):
                known = [*given.get(unit.places[index], ()), *before[index]]
                found = [_found(known, unit, index, run) for run in runs]
                self._fill(unit, index, found)
                before[index] = []

    def _pieces(self, unit: Unit, index: int) -> list[Piece]:
        """Return a parameter's runs here with their state, not copied."""
        state = self._optimizer.state.get(unit.parameters[index], {})
        tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
        found, at = [], 0
        for run in unit.runs[index]:
            end = at + run.end - run.begin
            parts = {n: v if n == SHARED else v.reshape(-1)[at:end] for n, v in tensors.items()}
            parts[VALUE] = unit.local[index][at:end]
            found.append(Piece(unit.places[index], *_within(run, unit.slots[index]), parts))
            at = end
        return found

    def _fill(self, unit: Unit, index: int, pieces: Sequence[Piece]) -> None:
        """Copy the pieces of a parameter's runs to where this worker keeps them."""
        parameter, state = unit.parameters[index], self._optimizer.state
        state.pop(parameter, None)
        if not pieces:
            return
        local = unit.local[index]
        values = {name: [piece.state[name] for piece in pieces] for name in pieces[0].state}
        with torch.no_grad():
            torch.cat([v.to(local.device) for v in values.pop(VALUE)], out=local)
            kept: dict[str, Tensor] = {}
            for name, parts in values.items():
                if name == SHARED:
                    kept[name] = parts[0].to(local.device if self._counts_there(parameter) else "cpu")
                else:
                    kept[name] = torch.cat([part.to(local.device) for part in parts])
        if kept:
            state[parameter] = kept

    def _counts_there(self, parameter: Any) -> bool:
        """Whether the optimiser wants its step counters on the parameter's device."""
        for group in self._optimizer.param_groups:
            if any(parameter is other for other in group["params"]):
                return bool(group.get("fused") or group.get("capturable"))
        return False


def _within(run: Run, slot: tuple[int, int]) -> tuple[int, int]:
    """Return a run's elements of its parameter."""
    return run.begin - slot[0], run.end - slot[0]


def _found(known: Sequence[Piece], unit: Unit, index: int, run: Run) -> Piece:
    """Return the piece of a run out of known ones, which may overlap: what came first counts."""
    begin, end = _within(run, unit.slots[index])
    parts: list[Piece] = []
    while begin < end:
        piece = next((p for p in known if p.begin <= begin < p.end), None)
        if piece is None:
            break
        parts += cuts([piece], begin, end, copy=False)
        begin = parts[-1].end
    if not parts:
        raise MusterError(f"nobody has sent parameter {unit.places[index]}, elements {begin} to {end}")
    return joined(parts, unit.places[index], *_within(run, unit.slots[index]))
