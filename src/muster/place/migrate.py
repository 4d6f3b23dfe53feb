"""Migrate: move small jobs to make room for a gang whose contract cannot be met (Xiao).

Each moved job must find a new place, inside its own contract, among what is free now: during a move it
holds both places.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from muster.model.placement import Placement
from muster.place.board import Board
from muster.place.clear import Candidate, Clearing, cheapest_clearing
from muster.place.pack import pack
from muster.place.request import Request, Strategy


@dataclass(frozen=True, slots=True)
class Movable:
    """A job that may be moved: what it holds, the cost, its request elsewhere, and its strategy."""

    candidate: Candidate
    request: Request
    place: Strategy = pack


@dataclass(frozen=True, slots=True)
class Move:
    """One job's new place."""

    job: int
    placement: Placement


@dataclass(frozen=True, slots=True)
class Migration:
    """The moves, the gang's placement afterwards, and the cost in device-seconds."""

    moves: tuple[Move, ...]
    placement: Placement
    cost: float


def cheapest_migration(board: Board, request: Request, movables: Iterable[Movable]) -> Migration | None:
    """Return the cheapest set of moves that makes room for the request; the board ends unchanged."""
    by_job = {movable.candidate.job: movable for movable in movables}
    found: dict[Clearing, tuple[Move, ...]] = {}

    def can_move(clearing: Clearing) -> bool:
        moves = moves_of(board, clearing, by_job)
        if moves is not None:
            found[clearing] = moves
        return moves is not None

    clearing = cheapest_clearing(board, request, (m.candidate for m in by_job.values()), can_move)
    if clearing is None:
        return None
    return Migration(found[clearing], clearing.placement, clearing.cost)


def moves_of(board: Board, clearing: Clearing, by_job: dict[int, Movable]) -> tuple[Move, ...] | None:
    """Find a new place for every removed job, largest first, off the gang's future devices."""
    version = board.version
    kept = board.withhold(clearing.placement.slots)
    moves: list[Move] = []
    for candidate in sorted(clearing.removed, key=lambda c: (-c.devices, c.job)):
        movable = by_job[candidate.job]
        placement = movable.place(board, movable.request)
        if placement is None:
            break
        board.take(placement.slots)
        moves.append(Move(candidate.job, placement))
    for move in moves:
        board.put_back(move.placement.slots)
    board.restore(kept)
    board.version = version
    return tuple(moves) if len(moves) == len(clearing.removed) else None
