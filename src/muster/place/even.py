"""Even: the fewest nodes, with the same number of workers and servers on each.

Source: Optimus, placement theorem: on alike nodes a synchronous parameter-server job is fastest on
the fewest nodes that can hold it, with an equal mix on each. Where a count does not divide, some
nodes hold one task more.
"""

from collections.abc import Iterator

from muster.model.choice import ChoiceTable
from muster.model.placement import Placement
from muster.model.plan import Part
from muster.model.topology import Level, each_bit
from muster.place.board import Board
from muster.place.draft import Draft
from muster.place.fit import emptiest_first
from muster.place.pack import pack
from muster.place.request import Request


def even(board: Board, request: Request) -> Placement | None:
    """An equal mix on the fewest nodes of the narrowest group; on one node, the closest devices."""
    if not request.plan.parts:
        return None
    whole = pack(board, request)
    if request.widest <= Level.NODE or (whole and len(whole.nodes()) == 1):
        return whole
    tasks = max(part.count for part in request.plan.parts)
    for nodes in range(2, tasks + 1):
        draft = _on_nodes(board, request, nodes)
        if draft is not None:
            return draft.finish()
    return None


def _on_nodes(board: Board, request: Request, nodes: int) -> Draft | None:
    shares = [_share(request.plan.parts, nodes, i) for i in range(nodes)]
    for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER):
        if level > request.widest:
            return None
        for mask in board.groups(level):
            draft = _deal(board, request, shares, mask)
            if draft is not None:
                return draft
    return None


def _share(parts: tuple[Part, ...], nodes: int, position: int) -> list[Part]:
    """What the node at this position holds: the first ones take the remainder."""
    return [Part(p.role, p.count // nodes + (position < p.count % nodes), p.need) for p in parts]


def _deal(board: Board, request: Request, shares: list[list[Part]], mask: int) -> Draft | None:
    draft = Draft(board, ChoiceTable.pack)
    waiting = list(shares)
    for node in _candidates(board, request, mask):
        if not waiting:
            break
        if _holds(board, node, waiting[0]):
            for part in waiting.pop(0):
                if part.count:
                    draft.put(node, part, part.count)
    return None if waiting else draft


def _candidates(board: Board, request: Request, mask: int) -> Iterator[int]:
    if request.plan.devices:
        return emptiest_first(board, request.kinds, mask)
    usable = [node for node in each_bit(mask) if board.usable[node]]
    return iter(sorted(usable, key=lambda node: (-board.millicores[node], node)))


def _holds(board: Board, node: int, share: list[Part]) -> bool:
    return (
        board.free[node].bit_count() >= sum(p.count * p.need.devices for p in share)
        and board.millicores[node] >= sum(p.count * p.need.millicores for p in share)
        and board.memory[node] >= sum(p.count * p.need.memory for p in share)
    )
