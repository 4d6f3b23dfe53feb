"""The search that pack and spread share: one node if possible, else the fewest nodes of one group.

Levels are tried from narrow to wide up to the contract's. A `Taste` ranks the places.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter

from muster.model.choice import Choice
from muster.model.job import Need
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.topology import MAX_DEVICES, Level, each_bit
from muster.place.board import Board, Shelf
from muster.place.draft import Choose, Draft
from muster.place.groups import ranked_groups
from muster.place.jointly import jointly
from muster.place.request import Request

COMPARED = 8
"""Groups compared after the first with room, for one where cores allow fewer nodes."""
LOOKED = 8
"""Nodes of one shape whose tenants are looked at: more differ little, and each costs as much."""

Price = Callable[[str, int], float]
"""The price of a place, by node and the bits of devices there: see `prices`."""
Rank = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Taste:
    """How to choose devices in a node, rank nodes (smaller is better), and rank groups."""

    choose: Choose
    rank_node: Callable[[Choice, int, int, float], Rank]
    """By the choice in a node, its free devices, all its devices, and the price of the place."""
    tight: bool
    """Prefer the group, and the last node, with the least spare room; else the most."""
    others: tuple[Choose, ...] = ()
    """Further ways to choose devices in a node, compared where places have a price."""
    price_at: int = 0
    """Where in the rank the price is: only places that are best by what comes before are priced. What
    comes before is the same for all nodes of a shape."""


def place(board: Board, request: Request, taste: Taste, price: Price | None = None) -> Placement | None:
    """Place the request at the narrowest level that holds it, or return None."""
    if not request.plan.parts or board.free_devices(request.kinds) < request.plan.devices:
        return None
    draft = _on_one_node(board, request, taste, price) or _over_nodes(board, request, taste)
    return None if draft is None else draft.finish()


def fill(draft: Draft, part: Part, nodes: Iterable[int]) -> int:
    """Put as many tasks of a part as fit on these nodes in turn; return how many are left."""
    left = part.count
    for node in nodes:
        if not left:
            break
        count = min(left, draft.fitting(node, part.need))
        if count:
            draft.put(node, part, count)
            left -= count
    return left


def _on_one_node(board: Board, request: Request, taste: Taste, price: Price | None) -> Draft | None:
    plan = request.plan
    if plan.devices:
        found = _best_place(board, request, taste, price)
        return None if found is None else on_node(board, plan, found[0], lambda *_: found[1])
    node = _best_cpu_node(board, plan, board.allowed(plan, request.kinds))
    return None if node is None else on_node(board, plan, node, taste.choose)


def on_node(board: Board, plan: Plan, node: int, choose: Choose) -> Draft:
    """Put all tasks of a plan on one node that has room for them."""
    draft = Draft(board, choose)
    for part in plan.parts:
        draft.put(node, part, part.count)
    return draft


def _best_place(
    board: Board, request: Request, taste: Taste, price: Price | None
) -> tuple[int, Choice] | None:
    """Return the node and the devices there that rank first."""
    alike = _shapes_by_rank(board, request, taste)
    for first in sorted(alike):
        shapes = (_places(board, request, taste, price, *each) for each in alike[first])
        best = min((place for shape in shapes for place in shape), key=itemgetter(0, 1), default=None)
        if best is not None:
            return best[1:]
    return None


def _shapes_by_rank(
    board: Board, request: Request, taste: Taste
) -> dict[Rank, list[tuple[int, Shelf, int]]]:
    """Return the shapes with room for the devices, by what comes before the price in the rank of all
    their nodes: nodes of one shape differ only by which of equal subtrees is which."""
    found: dict[Rank, list[tuple[int, Shelf, int]]] = {}
    devices, before = request.plan.devices, taste.price_at
    for order, name in enumerate(request.kinds):
        shelf = board.shelves[name]
        all_devices = shelf.kind.devices
        for shape in shelf.by_shape if devices <= all_devices else ():
            sample = shelf.sample[shape]
            choice = taste.choose(shelf.table, sample, devices)
            if choice is not None and choice.level <= request.widest:
                rank = taste.rank_node(choice, sample.bit_count(), all_devices, 0.0)[:before]
                found.setdefault(rank, []).append((order, shelf, shape))
    return found


def _places(
    board: Board,
    request: Request,
    taste: Taste,
    price: Price | None,
    order: int,
    shelf: Shelf,
    shape: int,
) -> Iterator[tuple[Rank, int, Choice]]:
    """Yield places on nodes of one shape with their ranks."""
    devices, there = request.plan.devices, shelf.kind.devices
    ways = (taste.choose, *(taste.others if price is not None else ()))
    nodes = _with_cores(board, shelf.by_shape[shape], request.plan)
    for node in islice(nodes, _looked(shelf, shape, price)):
        free = board.free[node]
        for choice in dict.fromkeys([choose(shelf.table, free, devices) for choose in ways]):
            if choice is not None and choice.level <= request.widest:
                cost = 0.0 if price is None else price(board.names[node], choice.bits)
                rank = taste.rank_node(choice, free.bit_count(), there, cost)
                yield (*rank, order), node, choice


def _with_cores(board: Board, members: int, plan: Plan) -> Iterator[int]:
    """Yield the nodes that have the CPU cores and memory of a whole plan."""
    millicores, memory = plan.millicores, plan.memory
    for node in each_bit(members):
        if board.millicores[node] >= millicores and board.memory[node] >= memory:
            yield node


def _looked(shelf: Shelf, shape: int, price: Price | None) -> int:
    """Return how many nodes of a shape to look at: empty ones are all alike."""
    empty = shelf.sample[shape] == shelf.kind.all_devices
    return 1 if price is None or empty else LOOKED


def has_cores(board: Board, node: int, plan: Plan) -> bool:
    """Return whether the node has the CPU cores and memory of a whole plan."""
    return board.millicores[node] >= plan.millicores and board.memory[node] >= plan.memory


def _best_cpu_node(board: Board, plan: Plan, mask: int) -> int | None:
    """Return the best fit on cores, nodes without devices first so that devices keep their cores."""
    fitting = [
        (board.shelf_of[node].kind.devices > 0, board.millicores[node], node)
        for node in each_bit(mask)
        if board.usable[node] and has_cores(board, node, plan)
    ]
    return min(fitting)[2] if fitting else None


def _over_nodes(board: Board, request: Request, taste: Taste) -> Draft | None:
    for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER):
        if level > request.widest:
            return None
        draft = _fewest_nodes(board, request, level, taste)
        if draft is not None:
            return draft
    return None


def _fewest_nodes(board: Board, request: Request, level: Level, taste: Taste) -> Draft | None:
    """Place the request in the group where it takes the fewest nodes; of equals, the first by taste."""
    allowed = board.allowed(request.plan, request.kinds)
    best: Draft | None = None
    compared = 0
    for least, mask in ranked_groups(board, request, level, tight=taste.tight):
        if best is not None and (least >= len(best.nodes()) or compared >= COMPARED):
            break
        compared += best is not None
        inside = mask & allowed
        draft = _one_by_one(board, request, inside, taste) or jointly(
            board, request, inside, taste.choose
        )
        if draft is not None and (best is None or len(draft.nodes()) < len(best.nodes())):
            best = draft
            if len(draft.nodes()) <= least:
                break  # no later group takes fewer: most requests need not have them ranked
    return best


def _one_by_one(board: Board, request: Request, mask: int, taste: Taste) -> Draft | None:
    """Place part by part, the one whose tasks take most devices first."""
    draft = Draft(board, taste.choose)
    by_devices = sorted(request.plan.parts, key=lambda part: -part.need.devices)
    for part in by_devices:
        if part.need.devices:
            left = _fill_devices(board, draft, part, request.kinds, mask, tight=taste.tight)
        else:
            left = fill(draft, part, _cpu_nodes(board, draft, part.need, mask))
        if left:
            return None
    return draft


def _fill_devices(
    board: Board, draft: Draft, part: Part, kinds: tuple[str, ...], mask: int, *, tight: bool
) -> int:
    left = fill(draft, part, draft.nodes())
    for node, count in _roomiest_first(board, draft, part.need, kinds, mask):
        if not left:
            break
        if left <= count:
            rest = Part(part.role, left, part.need)
            last = _snuggest(board, draft, rest, kinds, mask) if tight else node
            draft.put(last, part, left)
            return 0
        draft.put(node, part, count)
        left -= count
    return left


def _roomiest_first(
    board: Board, draft: Draft, need: Need, kinds: tuple[str, ...], mask: int
) -> Iterator[tuple[int, int]]:
    """Yield unused nodes and how many tasks each takes, those that take most first.

    By devices a node takes `most`; one whose cores or memory allow fewer is deferred.
    """
    used = set(draft.nodes())
    later: dict[int, list[int]] = {}
    for devices in range(MAX_DEVICES, need.devices - 1, -1):
        most = devices // need.devices
        yield from ((node, most) for node in later.pop(most, ()))
        for node in _with_free(board, kinds, mask, devices):
            count = 0 if node in used else board.tasks_fitting(node, need)
            if count == most:
                yield node, count
            elif count:
                later.setdefault(count, []).append(node)


def emptiest_first(board: Board, kinds: tuple[str, ...], mask: int) -> Iterator[int]:
    """Yield nodes of these configuration sets in a set of nodes, most free devices first."""
    for devices in range(MAX_DEVICES, 0, -1):
        yield from _with_free(board, kinds, mask, devices)


def _with_free(board: Board, kinds: tuple[str, ...], mask: int, devices: int) -> Iterator[int]:
    """Yield nodes with exactly `devices` free, configuration sets in the order of preference."""
    for kind in kinds:
        by_count = board.shelves[kind].by_count
        if devices < len(by_count):
            yield from each_bit(by_count[devices] & mask)


def _snuggest(board: Board, draft: Draft, part: Part, kinds: tuple[str, ...], mask: int) -> int:
    """Return the unused node with fewest free devices that takes all of these tasks."""
    used = set(draft.nodes())
    return next(
        node
        for devices in range(part.count * part.need.devices, MAX_DEVICES + 1)
        for node in _with_free(board, kinds, mask, devices)
        if node not in used and board.tasks_fitting(node, part.need) >= part.count
    )


def _cpu_nodes(board: Board, draft: Draft, need: Need, mask: int) -> Iterator[int]:
    """Yield nodes for tasks without devices: the job's own, then those without devices, then any;
    those that take most first."""
    used = draft.nodes()
    yield from used
    seen = set(used)
    without = sum(s.members for s in board.shelves.values() if not s.kind.devices) & mask
    for nodes in (without, mask & ~without):
        there = [node for node in each_bit(nodes) if node not in seen]
        yield from sorted(there, key=lambda node: -board.tasks_fitting(node, need))
