"""Grow: more tasks for a running job, near those it has and inside its contract."""

from collections.abc import Iterator
from dataclasses import replace

from muster.model.choice import ChoiceTable
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Part, Plan
from muster.model.topology import Level, each_bit
from muster.place.board import Board
from muster.place.contract import spanned
from muster.place.draft import Draft
from muster.place.fit import emptiest_first, fill
from muster.place.request import Request


def grow(board: Board, request: Request, held: Placement) -> tuple[Slot, ...]:
    """Return slots for as many of the plan's tasks as fit near the placement."""
    if spanned(board.cluster, held) > request.widest:
        return ()  # with more devices the contract is stricter than where the job is now
    if request.widest <= Level.NODE:
        return _inside_node(board, request, held)
    mask = _around(board, held, request.widest)
    draft = Draft(board, ChoiceTable.pack, beside=held)
    for part in request.plan.parts:
        fill(draft, part, _nearest(board, request, held, mask, devices=part.need.devices > 0))
    return draft.finish().slots


def _inside_node(board: Board, request: Request, held: Placement) -> tuple[Slot, ...]:
    (name,) = held.nodes()
    node = board.index(name)
    draft = Draft(board, ChoiceTable.pack, beside=held)
    for part in _that_fit(board, request, held.bits()[name], node):
        fill(draft, part, iter((node,)))
    return draft.finish().slots


def _that_fit(board: Board, request: Request, bits: int, node: int) -> tuple[Part, ...]:
    """Return as many workers as keep the contract; other roles unchanged."""
    table, free = board.shelf_of[node].table, board.free[node]
    parts = request.plan.parts
    for workers in range(request.plan.count(Role.WORKER), -1, -1):
        kept = tuple(replace(p, count=workers) if p.role is Role.WORKER else p for p in parts)
        devices = Plan(kept).devices
        choice = table.beside(free, bits, devices) if devices else None
        if not devices or (choice and choice.level <= request.widest):
            return kept
    return ()


def _around(board: Board, held: Placement, level: Level) -> int:
    """Return the group at a level above the node that holds the placement."""
    return board.groups(level)[board.group_of(board.index(held.slots[0].node), level)]


def _nearest(
    board: Board, request: Request, held: Placement, mask: int, *, devices: bool
) -> Iterator[int]:
    """Yield the job's own nodes, then others from narrow to wide, inside the mask."""
    own = sum(1 << board.index(name) for name in held.nodes())
    allowed = sum(board.shelves[kind].members for kind in request.kinds) if devices else own
    reach = board.allowed(request.plan, request.kinds)
    seen = own
    yield from each_bit(own & allowed)
    for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER):
        near = _around(board, held, level) & mask & ~seen & reach
        seen |= near
        yield from emptiest_first(board, request.kinds, near) if devices else each_bit(near)
