"""Jointly: tasks of two roles at once, where one role after the other finds no room.

Workers on the wrong nodes can leave no room for servers. Dynamic programming over the nodes: for each
number of workers on the nodes so far, the most servers that fit beside them. Exact; it runs only when
`fit` has failed and the sums would allow it, which is rare.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from muster.model.plan import Part
from muster.model.topology import each_bit
from muster.place.board import Board
from muster.place.draft import Choose, Draft
from muster.place.request import Request

Row = NDArray[np.int64]
NEVER = -(1 << 40)
"""Servers beside an impossible number of workers: below zero whatever is added."""


def jointly(board: Board, request: Request, mask: int, choose: Choose) -> Draft | None:
    """Place the two parts of a plan in a set of nodes, or return None if that is impossible."""
    if len(request.plan.parts) != 2 or not _room_by_sums(board, request, mask):
        return None
    first, second = request.plan.parts
    row = np.full(first.count + 1, NEVER, dtype=np.int64)
    row[0] = 0
    picks: list[tuple[int, Row]] = []
    for node in _usable(board, mask):
        beside = _beside(board, request, node)
        row, pick = _extended(row, beside)
        picks.append((node, pick))
        if row[-1] >= second.count:
            return _traced(board, request, picks, choose)
    return None


def _room_by_sums(board: Board, request: Request, mask: int) -> bool:
    """Return whether each part would fit alone, and both by the sums over all nodes."""
    plan, nodes = request.plan, list(_usable(board, mask))
    devices = sum(board.free[n].bit_count() for n in nodes if _allowed(board, request, n))
    empty = Draft(board, _none)
    return (
        devices >= plan.devices
        and sum(board.millicores[n] for n in nodes) >= plan.millicores
        and sum(board.memory[n] for n in nodes) >= plan.memory
        and all(
            sum(_fitting(board, request, empty, n, part) for n in nodes) >= part.count
            for part in plan.parts
        )
    )


def _usable(board: Board, mask: int) -> Iterator[int]:
    return (node for node in each_bit(mask) if board.usable[node])


def _allowed(board: Board, request: Request, node: int) -> bool:
    return board.shelf_of[node].kind.name in request.kinds


def _beside(board: Board, request: Request, node: int) -> list[int]:
    """Return how many tasks of the second part fit on a node beside 0, 1, ... of the first."""
    first, second = request.plan.parts
    most = min(first.count, _fitting(board, request, Draft(board, _none), node, first))
    found = []
    for count in range(most + 1):
        draft = Draft(board, _none)
        draft.put(node, first, count)
        found.append(min(second.count, _fitting(board, request, draft, node, second)))
    return found


def _fitting(board: Board, request: Request, draft: Draft, node: int, part: Part) -> int:
    if part.need.devices and not _allowed(board, request, node):
        return 0
    return draft.fitting(node, part.need)


def _none(*_: object) -> None:
    """Choose no devices while counting."""


def _extended(row: Row, beside: list[int]) -> tuple[Row, Row]:
    """Return the row with one node more, and how many of the first part that node takes."""
    best, pick = row + beside[0], np.zeros_like(row)
    for count, more in enumerate(beside[1:], start=1):
        with_count = row[:-count] + more
        better = with_count > best[count:]
        best[count:][better] = with_count[better]
        pick[count:][better] = count
    return best, pick


def _traced(board: Board, request: Request, picks: list[tuple[int, Row]], choose: Choose) -> Draft:
    """Trace back from the last node to the first, each taking what was picked for it."""
    first, second = request.plan.parts
    draft = Draft(board, choose)
    left, others = first.count, second.count
    for node, pick in reversed(picks):
        count = int(pick[left])
        if count:
            draft.put(node, first, count)
        beside = min(others, _fitting(board, request, draft, node, second))
        if beside:
            draft.put(node, second, beside)
        left, others = left - count, others - beside
    return draft
