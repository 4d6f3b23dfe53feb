"""Even: the fewest nodes, with the same number of workers and servers on each.

Source: Optimus, placement theorem: on equal nodes a synchronous parameter-server job is fastest on the
fewest nodes that can hold it, with an equal mix on each. Where a count does not divide, some nodes hold
one task more; if possible not one worker more and one server more on the same node. Where no equal
split fits, the job is packed.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from muster.model.choice import ChoiceTable
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.topology import MAX_DEVICES, Level, each_bit
from muster.place.board import Board
from muster.place.draft import Draft
from muster.place.fit import emptiest_first, has_cores
from muster.place.pack import pack
from muster.place.request import Request

WAYS = 512
"""Splits tried, each at one level: far more than a gang of a few dozen tasks has."""

Split = dict[Plan, int]
"""What a node holds, and how many nodes hold it."""


def even(board: Board, request: Request) -> Placement | None:
    """Place an equal mix on the fewest nodes of the narrowest group; on one node, closest devices."""
    packed = pack(board, request)
    if packed is None or len(packed.nodes()) == 1:
        return packed
    for split, level in islice(_ways(board, request, len(packed.slots)), WAYS):
        for mask in _roomy_groups(board, request, level, split):
            draft = _deal(board, request, split, mask)
            if draft is not None:
                return draft.finish()
    return packed


def _ways(board: Board, request: Request, tasks: int) -> Iterator[tuple[Split, Level]]:
    """Yield every equal split at every level: fewest nodes first, then the narrowest level."""
    levels = [level for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER) if level <= request.widest]
    for nodes in range(_least_nodes(board, request.plan), tasks + 1):
        for level in levels:
            yield from ((split, level) for split in _splits(request.plan.parts, nodes))


def _least_nodes(board: Board, plan: Plan) -> int:
    """Return the fewest nodes that could hold the plan if all were empty and of the largest kind."""
    kinds = board.cluster.configurations.values()
    bounds = (
        (plan.devices, max(kind.devices for kind in kinds)),
        (plan.millicores, max(kind.millicores for kind in kinds)),
        (plan.memory, max(kind.memory for kind in kinds)),
    )
    return max(2, *(-(-total // largest) for total, largest in bounds if total))


def _splits(parts: tuple[Part, ...], nodes: int) -> Iterator[Split]:
    """Yield splits: odd tasks of two roles on different nodes first, then more and more together."""
    first, second = (*(part.count % nodes for part in parts), 0)[:2]
    for both in range(max(0, first + second - nodes), min(first, second) + 1):
        split = {
            _share(parts, nodes, (1, 1)): both,
            _share(parts, nodes, (1, 0)): first - both,
            _share(parts, nodes, (0, 1)): second - both,
            _share(parts, nodes, (0, 0)): nodes - first - second + both,
        }
        if not split.get(Plan(())):
            yield {share: count for share, count in split.items() if count}


def _share(parts: tuple[Part, ...], nodes: int, more: tuple[int, int]) -> Plan:
    counts = [part.count // nodes + odd for part, odd in zip(parts, more, strict=False)]
    pairs = zip(parts, counts, strict=True)
    return Plan(tuple(replace(part, count=count) for part, count in pairs if count))


def _roomy_groups(board: Board, request: Request, level: Level, split: Split) -> list[int]:
    """Return the groups with enough nodes for every size of share."""
    groups = board.groups(level)
    sizes = {share.devices for share in split}
    if max(sizes) > MAX_DEVICES:
        return []
    if not any(sizes):
        return [mask for mask in groups if mask.bit_count() >= sum(split.values())]
    with_at_least = board.counts(level, request.kinds)[:, ::-1].cumsum(axis=1)[:, ::-1]
    wanted = {size: sum(n for s, n in split.items() if s.devices >= size) for size in sizes if size}
    roomy = np.logical_and.reduce([with_at_least[:, size] >= n for size, n in wanted.items()])
    return [groups[i] for i in np.flatnonzero(roomy)]


def _deal(board: Board, request: Request, split: Split, mask: int) -> Draft | None:
    """Put every share on a node of its own, or return None. A share that finds no node displaces
    another, so a deal is found if there is one (bipartite matching)."""
    nodes = list(_candidates(board, request, mask))
    fitting: dict[Plan, list[int]] = {}
    for share, count in split.items():
        fitting[share] = [node for node in nodes if _holds(board, request, node, share)]
        if len(fitting[share]) < count:
            return None
    dealt: dict[int, Plan] = {}

    def seat(share: Plan, asked: set[Plan]) -> bool:
        asked.add(share)
        for node in fitting[share]:
            if node not in dealt:
                dealt[node] = share
                return True
        for node in fitting[share]:
            if dealt[node] not in asked and seat(dealt[node], asked):
                dealt[node] = share
                return True
        return False

    if not all(seat(share, set()) for share, count in split.items() for _ in range(count)):
        return None
    draft = Draft(board, ChoiceTable.pack)
    for node, share in dealt.items():
        for part in share.parts:
            draft.put(node, part, part.count)
    return draft


def _candidates(board: Board, request: Request, mask: int) -> Iterator[int]:
    """Yield nodes with free devices, emptiest first; then the others, most cores first."""
    seen = 0
    if request.plan.devices:
        for node in emptiest_first(board, request.kinds, mask):
            seen |= 1 << node
            yield node
        if all(part.need.devices for part in request.plan.parts):
            return
    rest = mask & ~seen & board.allowed(request.plan, request.kinds)
    others = [node for node in each_bit(rest) if board.usable[node]]
    yield from sorted(others, key=lambda node: (-board.millicores[node], node))


def _holds(board: Board, request: Request, node: int, share: Plan) -> bool:
    if share.devices and board.shelf_of[node].kind.name not in request.kinds:
        return False
    return board.free[node].bit_count() >= share.devices and has_cores(board, node, share)
