"""Roomy: take all of the node with most free devices, then of the next, until there are enough.

The placement of the published evaluations of Tiresias, Optimus and AFS on the T4 cluster: few nodes,
whatever is left over (see the rules of that data).
"""

from muster.model.choice import ChoiceTable
from muster.model.placement import Placement
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.draft import Draft
from muster.place.fit import emptiest_first, fill
from muster.place.pack import pack
from muster.place.request import Request


def roomy(board: Board, request: Request) -> Placement | None:
    """Fill the emptiest nodes of one group one by one; inside a node, the closest devices."""
    if request.widest <= Level.NODE or not all(part.need.devices for part in request.plan.parts):
        return pack(board, request)
    if board.free_devices(request.kinds) < request.plan.devices:
        return None
    for group in board.groups(request.widest):
        draft = Draft(board, ChoiceTable.pack)
        nodes = list(emptiest_first(board, request.kinds, group))
        if not any(fill(draft, part, nodes) for part in request.plan.parts):
            return draft.finish()
    return None
