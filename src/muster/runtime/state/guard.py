"""Checks that all members have the same state: a few tensors with every step, all within a cycle.

Each holder of the state puts a *seal*, a checksum of this step's tensors, into its vote. Seals are
compared between members whose hardware computes alike. If they differ, all members compare everything
(`compare`): the state of the majority is kept.
"""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from muster.runtime.members.ballot import Vote
from muster.runtime.state.checksum import PendingSum, is_dense, leaves, piece, pieces, text_sum
from muster.runtime.state.entries import StateEntry, entries
from muster.runtime.state.state import TrainingState

CYCLE = 64
"""Steps in which everything is looked at once: the sums of a step read less than 1 % of what its
update reads and writes."""
SOON = 8
"""Steps in which everything is looked at once after a change of who holds the state: what came wrong
must not be learnt from for long. A join with 800 MB then reads 100 MB in each."""
BITS = 24
"""Bits that a float32 of a ballot holds exactly."""
_NO_SEAL = (0.0, 0.0)


def hardware(device: torch.device) -> float:
    """Return a number that members share if the same operations give them the same bits."""
    parts = [torch.__version__, torch.backends.cpu.get_cpu_capability()]
    if device.type == "cuda":
        parts.append(torch.cuda.get_device_name(device))
    else:
        parts.append(str(torch.get_num_threads()))  # sums are split among threads
    return float(zlib.crc32(" ".join(parts).encode()) % (1 << BITS))


def differ(votes: Sequence[Vote]) -> bool:
    """Whether the seals of members with the same hardware differ."""
    seals = {(vote.hardware, vote.seal, vote.seal_too) for vote in votes if vote.seal}
    return len(seals) > len({hardware for hardware, _, _ in seals})


@dataclass(frozen=True, slots=True)
class _Unit:
    """What a step looks at: an entry, or a piece of a large tensor."""

    entry: StateEntry
    piece: int | None = None

    def look(self) -> list[tuple[str, Any]]:
        value = self.entry.value()
        if self.piece is not None and isinstance(value, Tensor):
            value = piece(value, self.piece)
        return list(leaves(value, f"{self.entry.kind} {self.entry.name}"))

    @property
    def turn(self) -> int:
        """The step of a cycle in which it is looked at, whatever else there is."""
        return zlib.crc32(f"{self.entry.name}#{self.piece}".encode()) % CYCLE


class Guard:
    """One member's seals."""

    def __init__(self, state: TrainingState) -> None:
        self._state = state
        self._turns: dict[int, list[_Unit]] = {}
        self._known: Any = None
        self._pending: PendingSum | None = None
        self.sharded = False
        """Owners update: nobody has the whole optimiser's state."""
        self.trusting = False
        """Members differ by rounding only: seals say nothing until the next formation."""
        self.soon = 0
        """Steps of which each looks at its part of `SOON`."""

    def begin(self, step: int, holds: bool) -> None:
        """Begin the checksums of a step."""
        self._pending = None
        if not holds or self.trusting:
            return
        self._find_turns()
        cycle = SOON if self.soon else CYCLE
        units = [
            unit for turn in range(step % cycle, CYCLE, cycle) for unit in self._turns.get(turn, [])
        ]
        with torch.no_grad():
            self._pending = PendingSum(leaf for unit in units for leaf in unit.look())

    def seal(self) -> tuple[float, float]:
        """Return the step's seal; zeros: no opinion."""
        return _sealed(self._pending.get()) if self._pending is not None else _NO_SEAL

    def seal_of_all(self) -> tuple[float, float]:
        """Return a seal of the whole state."""
        with torch.no_grad():
            return _sealed(PendingSum(leaf for _, leaf in self.leaves()).get())

    def leaves(self) -> list[tuple[str, tuple[str, Any]]]:
        """Return everything: kind, and name with tensor or value."""
        return [
            (entry.kind, leaf)
            for entry in entries(self._state, self.sharded)
            for leaf in leaves(entry.value(), entry.name)
        ]

    def _find_turns(self) -> None:
        """Find what is looked at when, if there is anything new."""
        optimizers = self._state.optimizers
        known = (
            self.sharded,
            len(self._state.kept),
            len(self._state.parameters),
            [(len(each.state), sum(map(len, each.state.values()))) for each in optimizers],
        )
        if known == self._known:
            return
        self._known, self._turns = known, {}
        for entry in entries(self._state, self.sharded):
            for unit in _units(entry):
                self._turns.setdefault(unit.turn, []).append(unit)


def _units(entry: StateEntry) -> list[_Unit]:
    value = entry.value() if entry.kind in ("parameter", "buffer", "optimiser") else None
    if isinstance(value, Tensor) and is_dense(value) and pieces(value) > 1:
        return [_Unit(entry, number) for number in range(pieces(value))]
    return [_Unit(entry)]


def _sealed(total: int) -> tuple[float, float]:
    """Return 48 of 64 bits; the first number is not 0."""
    mixed = total * 0x9E3779B97F4A7C15 % (1 << 64)
    return float((mixed >> 40) % ((1 << BITS) - 1) + 1), float((mixed >> 16) % (1 << BITS))


# comparing everything


@dataclass(frozen=True, slots=True)
class SealComparison:
    """What members found when they compared everything."""

    most: tuple[int, ...]
    """Ranks that agree, more than half of all that have the state; empty: there is no majority."""
    others: tuple[int, ...]
    """Ranks that differ from them; without a majority all that have the state."""
    kind: str = ""
    name: str = ""
    """What differs first, a likely cause before its effects."""
    more: int = 0
    """How many more tensors or values differ."""


ORDER = ("setting", "schedule", "kept", "buffer", "parameter", "optimiser")
"""Causes before effects."""
_NOISE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-2, torch.float16: 1e-2}
"""Relative differences that may be rounding, by type."""
_COLUMNS = 5


def compare(group: Any, rank: int, ranks: int, guard: Guard, holds: bool) -> SealComparison:
    """Compare the whole state with all members; a collective."""
    mine = guard.leaves() if holds else []
    names = text_sum(repr([(kind, name) for kind, (name, _) in mine])) % (1 << 32)
    heads = torch.zeros(ranks, 3, dtype=torch.float64)
    heads[rank] = torch.tensor([float(holds), len(mine), names], dtype=torch.float64)
    group.allreduce(heads.view(-1)).wait()
    rows = torch.zeros(ranks, int(heads[:, 1].max()), _COLUMNS, dtype=torch.float64)
    for place, (_, (name, value)) in enumerate(mine):
        rows[rank, place] = torch.tensor(_row(name, value), dtype=torch.float64)
    group.allreduce(rows.view(-1)).wait()
    return judge(heads, rows, [(kind, name) for kind, (name, _) in mine])


def judge(heads: Tensor, rows: Tensor, names: Sequence[tuple[str, str]]) -> SealComparison:
    """Find the majority: who agrees with whom, but for rounding."""
    holders = [rank for rank, head in enumerate(heads.tolist()) if head[0]]
    circles = [tuple(q for q in holders if _agree(heads, rows, r, q)) for r in holders]
    most = max(circles, key=len, default=())
    if 2 * len(most) <= len(holders):
        most = ()
    others = tuple(rank for rank in holders if rank not in most)
    if not others:
        return SealComparison(most, ())
    one, other = (most or holders)[0], others[-1]
    differing = _differing(heads, rows, one, other)
    if not differing or not names or max(differing) >= len(names):
        return SealComparison(most, others, "structure", "the number of tensors", 0)
    found = min(differing, key=lambda place: (ORDER.index(names[place][0]), place))
    return SealComparison(most, others, *names[found], len(differing) - 1)


def _agree(heads: Tensor, rows: Tensor, one: int, other: int) -> bool:
    return torch.equal(heads[one], heads[other]) and not _differing(heads, rows, one, other)


def _differing(heads: Tensor, rows: Tensor, one: int, other: int) -> list[int]:
    """Return the places at which two members differ by more than rounding."""
    if not torch.equal(heads[one], heads[other]):
        return []
    a, b = rows[one], rows[other]
    alike = (a[:, :2] == b[:, :2]).all(1)
    noise, size = a[:, 4], torch.maximum(a[:, 3], b[:, 3])
    rounding = (a[:, 2] - b[:, 2]).abs() <= noise * size.sqrt()
    rounding &= (a[:, 3] - b[:, 3]).abs() <= noise * size
    return [int(i) for i in (~(alike | (rounding & (noise > 0)))).nonzero().flatten()]


def _row(name: str, value: Any) -> list[float]:
    """Return 64 bits in two numbers, an alternating sum, a sum of squares, and what may be rounding."""
    total = PendingSum([(name, value)]).get()
    row = [float(total >> 32), float(total % (1 << 32)), 0.0, 0.0, 0.0]
    noise = _NOISE.get(value.dtype) if isinstance(value, Tensor) and is_dense(value) else None
    if noise is not None:
        flat = value.detach().reshape(-1).double()
        # Signs alternate: rounding in one direction does not add up.
        alternating = float(flat[0::2].sum() - flat[1::2].sum())
        squares = float(flat.square().sum())
        row[2:] = [alternating, squares, noise]
    return row if all(map(_is_finite, row)) else [*row[:2], 0.0, 0.0, 0.0]


def _is_finite(number: float) -> bool:
    return number - number == 0
