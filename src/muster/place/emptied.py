"""Empty whole nodes for a gang over several nodes, so that it has no neighbours.

A gang waits in every step for its slowest worker: one neighbour on one of its nodes slows all of it. So
the small jobs of just enough nodes are moved, those of the group where that costs least.
"""

from collections.abc import Iterable, Iterator
from heapq import nsmallest
from operator import attrgetter, itemgetter

from muster.model.choice import ChoiceTable
from muster.model.plan import Part
from muster.model.topology import Level, each_bit
from muster.place.board import Board
from muster.place.clear import Candidate, Clearing
from muster.place.draft import Draft
from muster.place.fit import fill
from muster.place.migrate import Migration, Movable, moves_of
from muster.place.request import Request

TRIED = 4
"""Groups tried, the cheapest first: where one has no room for the moved jobs, most have none."""


def cheapest_emptying(board: Board, request: Request, movables: Iterable[Movable]) -> Migration | None:
    """Return the cheapest moves after which the gang has nodes of its own; the board ends unchanged."""
    if len(request.plan.parts) > 1:
        return None
    by_job = {movable.candidate.job: movable for movable in movables}
    on: dict[int, list[Candidate]] = {}
    for movable in by_job.values():
        for name in {slot.node for slot in movable.candidate.slots}:
            on.setdefault(board.index(name), []).append(movable.candidate)
    usable = sum(board.shelves[kind].members for kind in request.kinds)
    emptied = {node: (_cost(there), there) for node, there in _emptiable(board, usable, on)}
    for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER):
        if level > request.widest:
            return None
        found = _clearings(board, request, level, emptied)
        for clearing in nsmallest(TRIED, found, key=attrgetter("cost")):
            moves = moves_of(board, clearing, by_job)
            if moves is not None:
                return Migration(moves, clearing.placement, clearing.cost)
    return None


def _clearings(
    board: Board, request: Request, level: Level, emptied: dict[int, tuple[float, list[Candidate]]]
) -> Iterator[Clearing]:
    """Yield for each group what must go so that the gang has the cheapest of its nodes."""
    (part,) = request.plan.parts
    groups: dict[int, list[tuple[float, int, list[Candidate]]]] = {}
    for node, (cost, there) in emptied.items():
        groups.setdefault(board.group_of(node, level), []).append((cost, node, there))
    for group in sorted(groups):
        clearing = _first(board, part, sorted(groups[group], key=itemgetter(0, 1)))
        if clearing is not None:
            yield clearing


def _cost(candidates: list[Candidate]) -> float:
    return sum(candidate.cost for candidate in candidates)


def _emptiable(
    board: Board, nodes: int, on: dict[int, list[Candidate]]
) -> Iterator[tuple[int, list[Candidate]]]:
    """Yield the nodes all of whose jobs can be moved, and those jobs."""
    for node in each_bit(nodes):
        there, free = on.get(node, []), board.free[node]
        for candidate in there:
            free |= sum(slot.bits for slot in candidate.slots if slot.node == board.names[node])
        if free == board.shelf_of[node].kind.all_devices:
            yield node, there


def _first(
    board: Board, part: Part, emptied: list[tuple[float, int, list[Candidate]]]
) -> Clearing | None:
    """Return what must go from the first nodes that hold the gang."""
    held, count = 0, 0
    for _, node, _ in emptied:
        if held >= part.count:
            break
        held, count = held + board.shelf_of[node].kind.devices // part.need.devices, count + 1
    if held < part.count:
        return None
    goes = dict.fromkeys(each for _, _, there in emptied[:count] for each in there)
    with board.lifted(slot for candidate in goes for slot in candidate.slots):
        draft = Draft(board, ChoiceTable.pack)
        left = fill(draft, part, (node for _, node, _ in emptied[:count]))
        return None if left else Clearing(tuple(goes), draft.finish())
