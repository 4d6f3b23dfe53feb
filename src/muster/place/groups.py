"""Groups of nodes in the order in which a request would rather have them: fewest nodes first.

Racks change one by one while thousands of requests of a few sizes are placed, so what a rack offers to
a size is kept, and worked out again only for racks whose nodes have changed since.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from muster.model.job import Need
from muster.model.plan import Part
from muster.model.topology import MAX_DEVICES, Level
from muster.place.board import Board, RackRanks, Shelf
from muster.place.request import Request

Ints = NDArray[np.int64]

_SHIFT = 32
"""Bits for the devices to spare, below the number of nodes."""
_MIDDLE = 1 << (_SHIFT - 1)
"""No spare devices: where most are wanted, more count as less."""
_NONE = (1 << 63) - 1
"""The rank of a group without room."""
_FEW = 16
"""Groups that are ranked faster one by one than by NumPy."""
_CHANGES = 1 << 14
"""Most changes of racks kept."""


def ranked_groups(
    board: Board, request: Request, level: Level, *, tight: bool
) -> Iterator[tuple[int, int]]:
    """Yield groups that may have room with the fewest nodes their devices allow, fewest first; of
    equals, those with the least devices to spare, or the most if not `tight`."""
    groups = board.groups(level)
    main = max(request.plan.parts, key=lambda part: part.count * part.need.devices)
    if not main.need.devices:
        yield from ((1, mask) for mask in groups)
        return
    ranks = _ranks(board, request, level, main, tight=tight)
    first = int(ranks.argmin())  # most requests are placed in the first
    if ranks[first] != _NONE:
        yield int(ranks[first]) >> _SHIFT, groups[first]
        for at in ranks.argsort(kind="stable")[1 : np.count_nonzero(ranks != _NONE)].tolist():
            yield int(ranks[at]) >> _SHIFT, groups[at]


def _ranks(board: Board, request: Request, level: Level, main: Part, *, tight: bool) -> Ints:
    """Return for each group its number of nodes, then its spare devices, as one number."""
    if level is not Level.RACK or len(request.kinds) > 1:
        return _rank_all(board.counts(level, request.kinds), main, tight=tight)
    return _rank_racks(board.shelves[request.kinds[0]], main, tight=tight)


def _rank_racks(shelf: Shelf, main: Part, *, tight: bool) -> Ints:
    if len(shelf.changed) > _CHANGES:
        shelf.ranks, shelf.changed = {}, []
    key = (main.count, main.need.devices, tight)
    known = shelf.ranks.get(key)
    if known is None:
        ranks = _rank_all(shelf.per_rack, main, tight=tight)
        known = shelf.ranks[key] = RackRanks(ranks, len(shelf.changed))
    elif known.seen < len(shelf.changed):
        racks = list(set(shelf.changed[known.seen :]))
        for rack, counts in zip(racks, shelf.per_rack[racks].tolist(), strict=True):
            known.ranks[rack] = _rank_one(counts, main, tight=tight)
        known.seen = len(shelf.changed)
    return known.ranks


def _rank_all(counts: Ints, main: Part, *, tight: bool) -> Ints:
    if len(counts) <= _FEW:
        return np.array([_rank_one(each, main, tight=tight) for each in counts.tolist()])
    needed, room = nodes_needed(counts, main.count, main.need)
    spare = room if tight else -room
    return np.where(room >= main.count, (needed << _SHIFT) + _MIDDLE + spare, _NONE)


def _rank_one(counts: list[int], main: Part, *, tight: bool) -> int:
    """Return the same of one group, given its nodes by free devices: a few are ranked faster so."""
    left, room, nodes, each = main.count, 0, 0, main.need.devices
    for devices in range(len(counts) - 1, each - 1, -1):
        there = counts[devices]
        if there:
            per_node = devices // each
            room += there * per_node
            if left > 0:
                takes = min(there, -(-left // per_node))
                nodes += takes
                left -= takes * per_node
    if left > 0:
        return _NONE
    return (nodes << _SHIFT) + _MIDDLE + (room if tight else -room)


def nodes_needed(counts: Ints, tasks: int, need: Need) -> tuple[Ints, Ints]:
    """Return for each group the fewest nodes that hold the tasks' devices, and the tasks it could hold.

    `counts` is [group, c] = nodes with c free devices. Where they do not fit, the first is meaningless.
    """
    per_node = np.arange(MAX_DEVICES, -1, -1) // need.devices
    nodes = counts[:, ::-1]
    held = np.cumsum(nodes * per_node, axis=1)
    seen = np.cumsum(nodes, axis=1)
    last = np.argmax(held >= tasks, axis=1)
    rows = np.arange(len(counts))
    before = last - 1
    held_before = np.where(last > 0, held[rows, before], 0)
    seen_before = np.where(last > 0, seen[rows, before], 0)
    rest = tasks - held_before
    return seen_before + -(-rest // np.maximum(per_node[last], 1)), held[:, -1]
