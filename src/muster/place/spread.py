"""Spread: away from other jobs, with the job's own devices together.

Xiao, section 3.2: two jobs below one PCIe switch slow each other by up to 12 % (TensorFlow) or 40 %
(CNTK), less below one socket, least apart; while a job's own devices want to be close (3.1).
"""

from muster.model.choice import Choice, ChoiceTable
from muster.model.placement import Placement
from muster.place import fit
from muster.place.board import Board
from muster.place.request import Request


def _rank(choice: Choice, free: int, devices: int, price: float) -> fit.Rank:
    return (choice.level, price, choice.neighbours, devices - free, -free)


TASTE = fit.Taste(choose=ChoiceTable.spread, rank_node=_rank, tight=False, price_at=1)


def spread(board: Board, request: Request, price: fit.Price | None = None) -> Placement | None:
    """Place where neighbours slow each other least; unpriced, with the fewest on the same switch,
    then socket, then node."""
    return fit.place(board, request, TASTE, price)
