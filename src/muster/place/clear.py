"""Clear: the cheapest set of tasks to remove so that a request fits.

Preemption, shrinking, migration and promises all use it; they differ in candidates, costs and further
conditions (`accept`).

Inside one node sets are tried in the order of their cost, so the answer is the cheapest (up to `SEARCH`
sets, then the node is given up). Across nodes the search is greedy by cost per device; then every
removal that turns out not to be needed is dropped.
"""

import heapq
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from muster.model.placement import Placement, Slot
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.fit import has_cores, on_node
from muster.place.pack import TASTE, pack
from muster.place.request import Request

SEARCH = 512
"""Sets tried on one node: all with 9 candidates, the cheap ones with 16."""
GROUPS = 16
"""Groups tried across nodes, the most promising first."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Tasks of one job that could be removed together, and the cost in device-seconds."""

    job: int
    slots: tuple[Slot, ...]
    cost: float
    whole: bool = True
    """Whether it is the whole job, or only tasks above its least."""
    devices: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "devices", sum(slot.bits.bit_count() for slot in self.slots))

    @property
    def rate(self) -> tuple[float, int]:
        """Cost per device, to sort by."""
        return (self.cost / max(1, self.devices), self.job)


@dataclass(frozen=True, slots=True)
class Clearing:
    """What to remove, and where the request then goes."""

    removed: tuple[Candidate, ...]
    placement: Placement

    @property
    def cost(self) -> float:
        """Device-seconds of all removals."""
        return sum(candidate.cost for candidate in self.removed)


Accept = Callable[[Clearing], bool]


def cheapest_clearing(
    board: Board, request: Request, candidates: Iterable[Candidate], accept: Accept = lambda _: True
) -> Clearing | None:
    """Return the cheapest acceptable clearing, or None; the board ends unchanged."""
    pool = [c for c in candidates if c.slots]
    as_it_is = pack(board, request)
    if as_it_is is not None and accept(nothing := Clearing((), as_it_is)):
        return nothing
    if request.widest <= Level.NODE and request.plan.devices:
        return _inside_nodes(board, request, pool, accept)
    return _across_nodes(board, request, pool, accept)


def _inside_nodes(
    board: Board, request: Request, pool: list[Candidate], accept: Accept
) -> Clearing | None:
    on: dict[int, list[Candidate]] = {}
    for candidate in pool:
        for name in {slot.node for slot in candidate.slots}:
            on.setdefault(board.index(name), []).append(candidate)
    bounds = []
    for node, there in on.items():
        bound = _bound(board, request, node, there)
        if bound is not None:
            bounds.append((bound, node))
    best: Clearing | None = None
    for bound, node in sorted(bounds):
        if best is not None and bound >= best.cost:
            break
        found = _on_node(board, request, node, on[node], accept)
        if found and (best is None or found.cost < best.cost):
            best = found
    return best


def _bound(board: Board, request: Request, node: int, there: list[Candidate]) -> float | None:
    """Return a lower bound on the cost of clearing this node, None if it can never hold the request."""
    shelf = board.shelf_of[node]
    if shelf.kind.name not in request.kinds or not board.usable[node]:
        return None
    name = board.names[node]
    bits = [_bits_on(candidate, name) for candidate in there]
    freeable = board.free[node]
    for each in bits:
        freeable |= each
    choice = shelf.table.pack(freeable, request.plan.devices)
    if choice is None or choice.level > request.widest:
        return None
    short = request.plan.devices - board.free[node].bit_count()
    rates = sorted(
        (c.cost / max(1, b.bit_count()), b.bit_count()) for c, b in zip(there, bits, strict=True)
    )
    bound = 0.0
    for rate, devices in rates:
        if short <= 0:
            break
        bound += rate * min(devices, short)
        short -= devices
    return bound


def _bits_on(candidate: Candidate, node: str) -> int:
    return sum(slot.bits for slot in candidate.slots if slot.node == node)


def _on_node(
    board: Board, request: Request, node: int, there: list[Candidate], accept: Accept
) -> Clearing | None:
    table = board.shelf_of[node].table
    plan = request.plan
    for removed in _by_cost(there):
        with board.lifted(slot for candidate in removed for slot in candidate.slots):
            choice = table.pack(board.free[node], plan.devices)
            if choice is None or choice.level > request.widest or not has_cores(board, node, plan):
                continue
            placement = on_node(board, plan, node, TASTE.choose).finish()
        clearing = Clearing(removed, placement)
        if accept(clearing):
            return clearing
    return None


def _by_cost(candidates: list[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """Yield sets of candidates, cheapest first; each step adds the next or swaps the last for it."""
    ordered = sorted(candidates, key=lambda c: (c.cost, c.job))
    heap: list[tuple[float, tuple[int, ...]]] = [(ordered[0].cost, (0,))] if ordered else []
    for _ in range(SEARCH):
        if not heap:
            return
        cost, chosen = heapq.heappop(heap)
        yield tuple(ordered[i] for i in chosen)
        last = chosen[-1]
        if last + 1 < len(ordered):
            following = ordered[last + 1].cost
            heapq.heappush(heap, (cost + following, (*chosen, last + 1)))
            swapped = cost - ordered[last].cost + following
            heapq.heappush(heap, (swapped, (*chosen[:-1], last + 1)))


def _across_nodes(
    board: Board, request: Request, pool: list[Candidate], accept: Accept
) -> Clearing | None:
    best: Clearing | None = None
    level = max(request.widest, Level.RACK)
    groups, on = board.groups(level), _by_group(board, pool, level)
    promising = sorted(on, key=lambda group: (-sum(c.devices for c in on[group]), group))
    for group in promising[:GROUPS]:
        clearing = _greedy(board, request, groups[group], on[group])
        if clearing and accept(clearing) and (best is None or clearing.cost < best.cost):
            best = clearing
    return best


def _by_group(board: Board, pool: list[Candidate], level: Level) -> dict[int, list[Candidate]]:
    """Return the candidates with tasks in each group."""
    if level is Level.CLUSTER:
        return {0: pool}
    on: dict[int, list[Candidate]] = {}
    for candidate in pool:
        for group in {board.group_of(board.index(slot.node), level) for slot in candidate.slots}:
            on.setdefault(group, []).append(candidate)
    return on


def _greedy(board: Board, request: Request, mask: int, there: list[Candidate]) -> Clearing | None:
    ordered = sorted(there, key=lambda c: c.rate)

    def fits(count: int) -> bool:
        return _placed_without(board, request, ordered[:count]) is not None

    enough = _by_devices(board, request, mask, ordered)
    if enough is not None and not fits(enough):
        # Removing more only helps, so bisect for the first number that fits.
        enough = bisect_left(range(len(ordered) + 1), True, lo=enough + 1, key=fits)
    if enough is None or enough > len(ordered):
        return None
    return _spare(board, request, ordered[:enough])


def _by_devices(board: Board, request: Request, mask: int, ordered: list[Candidate]) -> int | None:
    """Return how many candidates in this order must go for enough devices in the group."""
    short = request.plan.devices - sum(
        (board.shelves[kind].by_count[c] & mask).bit_count() * c
        for kind in request.kinds
        for c in range(1, len(board.shelves[kind].by_count))
    )
    for count, candidate in enumerate(ordered):
        if short <= 0:
            return count
        short -= candidate.devices
    return len(ordered) if short <= 0 else None


def _spare(board: Board, request: Request, removed: list[Candidate]) -> Clearing | None:
    """Keep every candidate, the most expensive first, without whose removal the request still fits."""
    placement = _placed_without(board, request, removed)
    for candidate in sorted(removed, key=lambda c: (-c.cost, c.job)):
        fewer = [c for c in removed if c is not candidate]
        without = _placed_without(board, request, fewer)
        if without is not None:
            removed, placement = fewer, without
    return None if placement is None else Clearing(tuple(removed), placement)


def _placed_without(board: Board, request: Request, removed: list[Candidate]) -> Placement | None:
    with board.lifted(slot for candidate in removed for slot in candidate.slots):
        return pack(board, request)
