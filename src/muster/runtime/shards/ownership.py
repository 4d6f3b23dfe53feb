"""Who holds which part of the optimiser's state, and what must move when members change.

Every range has an owner, which sums and updates it, and a mirror, which does the same update. The owner
sends its mirror the summed gradient instead of the new parameters: the same bytes, so a mirror costs
memory and compute but no traffic. Streaming the owner's state instead would cost once (momentum) or
twice (Adam) its share per step.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from muster.runtime.errors import MusterError


class LostShardError(MusterError):
    """Owner and mirror of a part of the optimiser's state are lost: only a checkpoint has it."""


@dataclass(frozen=True, slots=True)
class Range:
    """Elements [begin, end) of a numbered flat tensor: of a bucket, or of a parameter."""

    tensor: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class OwnedRange:
    """A range, its owner, and its mirror (None: no other task)."""

    range: Range
    owner: str
    mirror: str | None = None

    @property
    def holders(self) -> list[str]:
        return [self.owner] if self.mirror is None else [self.owner, self.mirror]


@dataclass(frozen=True, slots=True)
class RangeMove:
    """A transfer of a range's state between tasks."""

    range: Range
    source: str
    target: str


def mirror_of(rank: int, able: Sequence[int], hosts: Sequence[str] = ()) -> int | None:
    """Return the rank that mirrors this one: the next able one, on another node if possible.

    `able`: ranks that get the parameters back in every step: the workers. `hosts`: by rank, if known: a
    mirror on the owner's node would die with it.
    """
    order = sorted(able)
    start = order.index(rank) + 1 if rank in order else rank
    turned = [order[(start + i) % len(order)] for i in range(len(order))]
    others = [other for other in turned if other != rank]
    apart = [other for other in others if hosts and hosts[other] != hosts[rank]]
    return next(iter(apart or others), None)


def holdings(
    owned: Iterable[tuple[Range, int]],
    tasks: Sequence[str],
    workers: Sequence[int],
    hosts: Sequence[str] = (),
) -> list[OwnedRange]:
    """Return ranges with owners and mirrors; `tasks` and `hosts` by rank."""
    found = []
    for range_, rank in owned:
        mirror = mirror_of(rank, workers, hosts)
        found.append(OwnedRange(range_, tasks[rank], None if mirror is None else tasks[mirror]))
    return found


def held_by(task: str, plan: Iterable[OwnedRange]) -> list[Range]:
    """Return the ranges a task keeps, as owner or mirror."""
    return [holding.range for holding in plan if task in holding.holders]


def moves(
    old: Sequence[OwnedRange], new: Sequence[OwnedRange], lost: Collection[str]
) -> list[RangeMove]:
    """Return the moves that give every new holder its state; owners send before mirrors.

    `lost`: tasks whose state is gone. Raises `LostShardError` if nobody alive holds a range.
    """
    if merged(h.range for h in old) != merged(h.range for h in new):
        raise ValueError("the old and the new plan do not hold the same elements")
    found: list[RangeMove] = []
    for holding in new:
        for part, sources in _sources(old, holding.range, lost):
            targets = [target for target in holding.holders if target not in sources]
            found += [RangeMove(part, sources[0], target) for target in targets]
    pairs = sorted({(move.source, move.target) for move in found})
    return [
        RangeMove(range_, *pair)
        for pair in pairs
        for range_ in merged(m.range for m in found if (m.source, m.target) == pair)
    ]


def _sources(
    old: Sequence[OwnedRange], wanted: Range, lost: Collection[str]
) -> list[tuple[Range, list[str]]]:
    """Split a range by its live holders."""
    found = []
    for holding in old:
        part = overlap(holding.range, wanted)
        if part is None:
            continue
        living = [task for task in holding.holders if task not in lost]
        if not living:
            raise LostShardError(
                f"the optimiser's state of bucket {part.tensor}, elements {part.begin} to {part.end}, "
                f"was held by {' and '.join(holding.holders)}, all lost: resume from the latest "
                "checkpoint"
            )
        found.append((part, living))
    return found


def overlap(one: Range, other: Range) -> Range | None:
    """Return the common elements, if any."""
    begin, end = max(one.begin, other.begin), min(one.end, other.end)
    return Range(one.tensor, begin, end) if one.tensor == other.tensor and begin < end else None


def merged(ranges: Iterable[Range]) -> list[Range]:
    """Join adjacent ranges; `ValueError` if ranges overlap."""
    found: list[Range] = []
    for range_ in sorted(ranges, key=lambda range_: (range_.tensor, range_.begin)):
        last = found[-1] if found else None
        if range_.begin == range_.end:
            continue
        if last is not None and last.tensor == range_.tensor and last.end > range_.begin:
            raise ValueError(f"tensor {range_.tensor}: element {range_.begin} is in two ranges")
        if last is not None and last.tensor == range_.tensor and last.end == range_.begin:
            found[-1] = replace(last, end=range_.end)
        else:
            found.append(range_)
    return found
