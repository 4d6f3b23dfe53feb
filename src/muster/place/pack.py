"""Pack: close together, and where little else is left.

Inside a node the same switch, then socket, then node; across nodes best fit (Peloton), the fewest
nodes of the tightest rack, then domain, then anywhere.
"""

from muster.model.choice import Choice, ChoiceTable
from muster.model.placement import Placement
from muster.place import fit
from muster.place.board import Board
from muster.place.request import Request


def _rank(choice: Choice, free: int, _: int, price: float) -> fit.Rank:
    return (choice.distance, free, price)


TASTE = fit.Taste(choose=ChoiceTable.pack, rank_node=_rank, tight=True, price_at=2)


def pack(board: Board, request: Request, price: fit.Price | None = None) -> Placement | None:
    """Place as close together as possible; of equals, with the least to spare, then the cheapest."""
    return fit.place(board, request, TASTE, price)
