"""Roomy: again and again from the node with most free devices, all it has or all that is still needed.

How the published evaluations of Tiresias, Optimus and AFS on the T4 cluster place their jobs: on few
nodes, without a look at what is left over (see the rules of that data).
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
    """The emptiest nodes of one group, filled one after the other; inside a node, the closest place."""
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
