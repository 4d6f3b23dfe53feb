"""Adaptive: spread while there is room for expected gangs, pack as it runs out (Xiao, section 4).

Spread means where neighbours slow each other least, by what was learnt of them (`prices`), and of
equally cheap places where least is left over. Room is kept only for gangs that no job would be moved
for.

The expectation is learnt from the queue: the most devices that multi-device gangs have asked for at
once, halving every `HALF_LIFE`. Jobs are spread while the wholly free nodes could take that much, even
after every waiting one-device job has broken one of them; else they are packed. Going back to spreading
takes whole nodes for one more of the largest gang, so that one start or end does not flip the mood.
"""

from dataclasses import dataclass
from math import ceil

from muster.model.choice import Choice, ChoiceTable
from muster.model.placement import Placement
from muster.place import fit
from muster.place.board import Board
from muster.place.request import Request

GRAIN = 100
"""Prices that differ by less than a hundredth of a device count as equal: no measurement is better."""

HALF_LIFE = 3600.0
"""s. "A deep learning job often lasts for hours" (Xiao, section 3): demand of an hour ago is still a
fair guess, that of yesterday is not."""


def _rank(choice: Choice, free: int, _: int, price: float) -> fit.Rank:
    return (choice.level, round(GRAIN * price), choice.distance, free)


TASTE = fit.Taste(
    choose=ChoiceTable.pack, rank_node=_rank, tight=True, others=(ChoiceTable.spread,), price_at=1
)


def cheapest(board: Board, request: Request, price: fit.Price | None = None) -> Placement | None:
    """Place where neighbours slow each other least; of equals, as pack does."""
    return fit.place(board, request, TASTE, price)


@dataclass(frozen=True, slots=True)
class Mood:
    """What was learnt: devices asked by multi-device gangs, the largest of them, when."""

    packing: bool = False
    demand: float = 0.0
    largest: float = 0.0
    at: float = 0.0


@dataclass(frozen=True, slots=True)
class Pressure:
    """A look at the cluster: devices on wholly free nodes, a node's devices, waiting one-device jobs,
    and the devices of each larger waiting gang."""

    whole: int
    per_node: int
    singles: int
    gangs: tuple[int, ...]


def settle(mood: Mood, pressure: Pressure, now: float) -> Mood:
    """Return the mood after one more look."""
    fade = 0.5 ** (max(0.0, now - mood.at) / HALF_LIFE)
    demand = max(float(sum(pressure.gangs)), mood.demand * fade)
    largest = max(float(max(pressure.gangs, default=0)), mood.largest * fade)
    band = _whole_nodes(largest, pressure.per_node) if mood.packing else 0
    # A cluster that was never asked for a gang has nothing to keep whole.
    left_whole = pressure.whole - pressure.singles * pressure.per_node
    packing = demand >= 1.0 and left_whole < demand + band
    return Mood(packing, demand, largest, now)


def _whole_nodes(devices: float, per_node: int) -> int:
    """Return the devices of the whole nodes that a gang takes."""
    return per_node * max(1, ceil(devices / per_node)) if per_node else 0
