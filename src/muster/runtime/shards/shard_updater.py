"""Owners that also update: each keeps the optimiser's state of the ranges it owns or mirrors.

The update is torch's: an instance of the user's optimiser class, with the current hyper-parameters,
works on flat slices. Nothing is final before `commit`: new parameters stay in the flats and new state
beside the old, so that a broken step can be rolled back and redone.
"""

import inspect
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from muster.runtime.errors import BadTrainingError, MusterError
from muster.runtime.shards.ownership import Range, merged, overlap
from muster.runtime.shards.state_pieces import (
    Piece,
    assemble,
    by_parameter,
    check_elementwise,
    cuts,
    gaps,
    joined,
    pieces_of,
)
from muster.runtime.step.buckets import GradientSlot

Options = list[dict[str, Any]]
"""Hyper-parameters by parameter group."""


def options_of(optimizer: Any) -> Options:
    """Return the current hyper-parameters by group."""
    return [
        {name: _plain(name, value) for name, value in group.items() if name != "params"}
        for group in optimizer.param_groups
    ]


def groups_of(optimizer: Any) -> dict[int, int]:
    """Return the group of each parameter, by id."""
    numbered = enumerate(optimizer.param_groups)
    return {id(parameter): number for number, group in numbered for parameter in group["params"]}


class SliceOptimizer:
    """The user's optimiser on slices of parameters; its last step can be rolled back."""

    def __init__(self, optimizer: Any, slices: Sequence[tuple[Piece, int, torch.dtype]]) -> None:
        """Slices: initial state (empty: none), group, type of the parameter."""
        check_elementwise(optimizer)
        self._pieces = [replace(piece, state={}) for piece, _, _ in slices]
        self._leaves = [torch.empty(piece.end - piece.begin, dtype=kind) for piece, _, kind in slices]
        members: dict[int, list[Tensor]] = {}
        for leaf, (_, group, _) in zip(self._leaves, slices, strict=True):
            members.setdefault(group, []).append(leaf)
        self._groups = list(members)
        self._optimizer = _alike(optimizer, members)
        self._before: list[dict[str, Any]] = []
        self._spare: list[dict[str, Any]] = [{} for _ in slices]
        for leaf, (piece, _, _) in zip(self._leaves, slices, strict=True):
            if piece.state:
                self._optimizer.state[leaf] = dict(piece.state)
            leaf.data = leaf.new_empty(0)

    def step(self, options: Options, values: Sequence[Tensor], gradients: Sequence[Tensor]) -> None:
        """Update `values` in place; keep the previous state until `commit`."""
        self.rollback()
        for group, number in zip(self._optimizer.param_groups, self._groups, strict=True):
            group.update(options[number])
        before = self._states()
        for leaf, state, spare in zip(self._leaves, before, self._spare, strict=True):
            if state:
                self._optimizer.state[leaf] = {n: _copy(v, spare.get(n)) for n, v in state.items()}
        for leaf, value, gradient in zip(self._leaves, values, gradients, strict=True):
            leaf.data, leaf.grad = value, gradient.to(leaf.dtype)
        self._before = before
        self._optimizer.step()
        for leaf in self._leaves:
            leaf.data, leaf.grad = leaf.new_empty(0), None

    def commit(self, unused: Collection[int] = ()) -> None:
        """Keep the last step, except for parameters without a gradient."""
        self._settle([piece.parameter in unused for piece in self._pieces])

    def rollback(self) -> None:
        """Undo the last step, unless committed."""
        self._settle([True for _ in self._pieces])

    def _settle(self, back: Sequence[bool]) -> None:
        """Keep one of the two states of each slice; reuse the other's memory."""
        for place, before in enumerate(self._before):
            leaf = self._leaves[place]
            after = self._optimizer.state.get(leaf, {})
            self._spare[place] = after if back[place] else before
            if back[place]:
                self._optimizer.state[leaf] = before
        self._before = []

    def pieces(self) -> list[Piece]:
        """Return the committed state of each slice, not copied."""
        found = []
        for piece, state in zip(self._pieces, self._before or self._states(), strict=True):
            tensors = {name: value for name, value in state.items() if isinstance(value, Tensor)}
            found.append(replace(piece, state=tensors))
        return found

    def _states(self) -> list[dict[str, Any]]:
        return [self._optimizer.state.get(leaf, {}) for leaf in self._leaves]


class ShardUpdater:
    """Updates this task's ranges as their summed gradients arrive, chunk by chunk."""

    def __init__(
        self,
        optimizer: Any,
        parameters: Sequence[Any],
        slots: Sequence[GradientSlot],
        held: Iterable[Range],
    ) -> None:
        """Take over the held part of the optimiser's state."""
        check_elementwise(optimizer)
        self._optimizer, self._parameters = optimizer, list(parameters)
        self._slots: dict[int, list[GradientSlot]] = {}
        for slot in slots:
            self._slots.setdefault(slot.bucket, []).append(slot)
        self._groups = groups_of(optimizer)
        self._lock = threading.Lock()
        self._store: dict[int, list[Piece]] = {}  # state not yet used by a chunk
        self._chunks: dict[Range, _Chunk] = {}
        self._staged: set[Range] = set()
        self._options = options_of(optimizer)
        self._held: list[Range] = []
        self.hold(held)
        self.load_state(pieces_of(optimizer, self._parameters, optimizer.state_dict()))
        optimizer.state.clear()

    @property
    def complete(self) -> bool:
        """Whether all held ranges are updated in this step."""
        return _length(self._staged) == _length(self._held)

    def hold(self, held: Iterable[Range]) -> None:
        """Set the held ranges, each element once; drop other state."""
        self._held = merged(range_ for range_ in held if range_.tensor in self._slots)
        self.load_state([])

    def begin(self) -> None:
        """Begin a step with the current hyper-parameters."""
        self.rollback()
        self._options = options_of(self._optimizer)

    def after_sum(self, bucket: int, begin: int, end: int, tensor: Tensor) -> None:
        """Turn the summed gradient of a held chunk into new parameters; ignore the ballot.

        Called on owner and mirror; in any order, from several threads.
        """
        if bucket not in self._slots or begin == end:
            return
        key = Range(bucket, begin, end)
        with self._lock:
            if key not in self._chunks:
                self._chunks[key] = self._make_chunk(key)
            chunk = self._chunks[key]
        chunk.update(self._options, tensor)
        with self._lock:
            self._staged.add(key)

    def commit(self, flats: Sequence[Tensor], unused: Collection[int] = ()) -> None:
        """Commit the step: adopt the flats as parameters, except those without a gradient."""
        if not self.complete:
            raise MusterError("a step was committed before all of its chunks were updated")
        for key in self._staged:
            self._chunks[key].commit(unused)
        self._staged.clear()
        self._adopt(flats, unused)

    def rollback(self) -> None:
        """Undo the step."""
        for chunk in self._chunks.values():
            chunk.rollback()
        self._staged.clear()

    def refresh(self) -> None:
        """Forget copies of parameters that others have changed."""
        for chunk in self._chunks.values():
            chunk.forget()

    def state_of(self, ranges: Iterable[Range]) -> list[Piece]:
        """Return a copy of the committed state of these ranges; nothing for elements without state."""
        stored = self._all()
        return [
            piece
            for index, begin, end in self._elements(ranges)
            for piece in cuts(stored.get(index, ()), begin, end)
        ]

    def load_state(self, pieces: Iterable[Piece]) -> None:
        """Replace the state of held ranges; ignore other state."""
        self.rollback()
        kept, given = self._all(), by_parameter(pieces)
        self._chunks.clear()
        found: list[Piece] = []
        for index, begin, end in self._elements(self._held):
            fresh = cuts(given.get(index, ()), begin, end)
            found += fresh
            for low, high in gaps(fresh, begin, end):
                found += cuts(kept.get(index, ()), low, high)
        self._store = by_parameter(found)

    def collect(self, pieces: Iterable[Piece]) -> dict[str, Any]:
        """Assemble the whole optimiser's state from the pieces of all owners."""
        return assemble(self._optimizer, self._parameters, pieces)

    def _adopt(self, flats: Sequence[Tensor], unused: Collection[int]) -> None:
        with torch.no_grad():
            for slots in self._slots.values():
                for slot in slots:
                    if slot.parameter not in unused:
                        parameter = self._parameters[slot.parameter]
                        parameter.copy_(flats[slot.bucket][slot.begin : slot.end].view(parameter.shape))

    def _all(self) -> dict[int, list[Piece]]:
        """Return the committed state by parameter, not copied."""
        stored = [piece for pieces in self._store.values() for piece in pieces]
        return by_parameter([*stored, *(p for chunk in self._chunks.values() for p in chunk.pieces())])

    def _elements(self, ranges: Iterable[Range]) -> list[tuple[int, int, int]]:
        """Map ranges to parameters and their elements."""
        found = []
        for range_ in ranges:
            for slot in self._slots.get(range_.tensor, ()):
                part = overlap(range_, Range(slot.bucket, slot.begin, slot.end))
                if part is not None:
                    found.append((slot.parameter, part.begin - slot.begin, part.end - slot.begin))
        return found

    def _make_chunk(self, key: Range) -> "_Chunk":
        if not any(overlap(key, held) == key for held in self._held):
            raise MusterError(f"{key} was summed here, but this task does not hold it")
        parts, slices, at = [], [], 0
        for index, begin, end in self._elements([key]):
            parameter = self._parameters[index]
            group = self._groups.get(id(parameter))
            parts.append(_Part(index, parameter, begin, end, at, group is not None))
            if group is not None:
                slices.append((self._take(index, begin, end), group, parameter.dtype))
            at += end - begin  # slots adjoin each other
        return _Chunk(parts, SliceOptimizer(self._optimizer, slices) if slices else None)

    def _take(self, index: int, begin: int, end: int) -> Piece:
        """Take the state of a parameter's elements out of the store."""
        stored = self._store.pop(index, [])
        touched = [piece for piece in stored if piece.begin < end and begin < piece.end]
        rest = [piece for piece in stored if not (piece.begin < end and begin < piece.end)]
        # Views: copying the rest for each of many chunks would be quadratic.
        rest += cuts(touched, 0, begin, copy=False)
        rest += cuts(touched, end, self._parameters[index].numel(), copy=False)
        if rest:
            self._store[index] = rest
        return joined(cuts(touched, begin, end), index, begin, end)


@dataclass(frozen=True, slots=True)
class _Part:
    """Elements [begin, end) of a parameter, at `at` in a chunk."""

    index: int
    parameter: Any
    begin: int
    end: int
    at: int
    trained: bool
    """Whether the optimiser has this parameter."""

    @property
    def direct(self) -> bool:
        """Whether it can be read in place: flat and in host memory."""
        return bool(self.parameter.is_cpu and self.parameter.is_contiguous())

    def read(self) -> Tensor:
        """Return the elements in host memory, copied only if needed."""
        return self.parameter.detach().reshape(-1)[self.begin : self.end].cpu()

    def inside(self, chunk: Tensor) -> Tensor:
        """Return their place in a chunk."""
        return chunk[self.at : self.at + self.end - self.begin]


class _Chunk:
    """Slices of one or more parameters that are summed and updated at once."""

    def __init__(self, parts: Sequence[_Part], slices: SliceOptimizer | None) -> None:
        self._parts, self._slices = parts, slices
        # Copies of what is expensive to read during a backward pass, by index in `parts`.
        self._host: dict[int, Tensor] = {}
        self._next: dict[int, Tensor] = {}

    def update(self, options: Options, tensor: Tensor) -> None:
        """Replace gradients by parameters, in place."""
        self._check(tensor)
        gradients = tensor.clone()
        values = []
        for place, part in enumerate(self._parts):
            inside = part.inside(tensor)
            inside.copy_(self._host[place] if place in self._host else part.read())
            values.append(inside.to(part.parameter.dtype))  # the same memory if the types agree
        if self._slices is not None:
            trained = [place for place, part in enumerate(self._parts) if part.trained]
            given = [self._parts[place].inside(gradients) for place in trained]
            self._slices.step(options, [values[place] for place in trained], given)
        for place, (part, value) in enumerate(zip(self._parts, values, strict=True)):
            if value.dtype != tensor.dtype:
                part.inside(tensor).copy_(value)
            if not part.direct:
                self._next[place] = value.clone()

    def commit(self, unused: Collection[int]) -> None:
        if self._slices is not None:
            self._slices.commit(unused)
        kept = {i: value for i, value in self._next.items() if self._parts[i].index not in unused}
        self._host.update(kept)
        self._next.clear()

    def rollback(self) -> None:
        if self._slices is not None:
            self._slices.rollback()
        self._next.clear()

    def forget(self) -> None:
        self._host.clear()

    def pieces(self) -> list[Piece]:
        return [] if self._slices is None else self._slices.pieces()

    def _check(self, tensor: Tensor) -> None:
        for part in self._parts:
            kind = part.parameter.dtype
            if torch.promote_types(kind, tensor.dtype) != tensor.dtype:
                raise BadTrainingError(f"parameters of {kind} do not fit into sums of {tensor.dtype}")


def _alike(optimizer: Any, members: dict[int, list[Tensor]]) -> Any:
    """Build an optimiser of the same class and hyper-parameters for other tensors, by group."""
    options = options_of(optimizer)
    known = inspect.signature(type(optimizer)).parameters
    defaults = {name: _plain(name, v) for name, v in optimizer.defaults.items() if name in known}
    groups = [{**options[group], "params": leaves} for group, leaves in members.items()]
    return type(optimizer)(groups, **defaults)


def _plain(name: str, value: Any) -> Any:
    """Convert a hyper-parameter for slices in host memory: tensors to numbers."""
    if name == "capturable":
        return False  # it requires tensors on a GPU
    return value.item() if isinstance(value, Tensor) else value


def _copy(part: Any, spare: Any) -> Any:
    """Copy a part of the state, into spare memory if it fits."""
    if not isinstance(part, Tensor):
        return part
    fits = isinstance(spare, Tensor) and spare.shape == part.shape and spare.dtype == part.dtype
    return spare.copy_(part) if fits else part.clone()


def _length(ranges: Iterable[Range]) -> int:
    return sum(range_.end - range_.begin for range_ in ranges)
