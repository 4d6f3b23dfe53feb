"""Placement the slow way, for tests: every way to deal tasks to nodes is tried."""

from collections.abc import Iterator

from muster.model.cluster import Cluster, NodeState, span
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.request import Request

Deal = tuple[tuple[int, ...], ...]
"""For each node, how many tasks of each part it takes."""


def state_of(board: Board) -> object:
    """All that a board knows, to see whether it has changed."""
    shelves = {
        name: (dict(s.by_shape), list(s.by_count), s.per_rack.tolist(), s.members)
        for name, s in board.shelves.items()
    }
    return list(board.free), list(board.millicores), list(board.memory), board.version, shelves


def assert_valid(cluster: Cluster, request: Request, placement: Placement) -> None:
    """The placement is the whole plan, on what is free, on allowed nodes, inside the contract."""
    for part in request.plan.parts:
        slots = [slot for slot in placement.slots if slot.role is part.role]
        assert len(slots) == part.count
        assert sorted(slot.index for slot in slots) == list(range(part.count))
        assert all(slot.need == part.need for slot in slots)
    assert len(placement.slots) == sum(part.count for part in request.plan.parts)
    assert_fits(cluster, request, placement)
    assert spanned(cluster, placement) <= request.widest


def assert_fits(cluster: Cluster, request: Request, placement: Placement) -> None:
    """Every task lies on free devices, cores and memory of nodes that are up and allowed."""
    free = {node.name: node.free for node in cluster.nodes}
    for slot in placement.slots:
        node = cluster.node(slot.node)
        assert node.state is NodeState.UP
        assert slot.bits.bit_count() == slot.need.devices
        # A task without devices is free to go anywhere only beside tasks that have some.
        assert node.configuration in request.kinds or (not slot.bits and request.plan.devices)
        assert slot.bits & ~free[slot.node] == 0, "a device is free, and taken once"
        free[slot.node] &= ~slot.bits
    for name in placement.nodes():
        needs = [slot.need for slot in placement.slots if slot.node == name]
        assert sum(need.millicores for need in needs) <= cluster.node(name).millicores
        assert sum(need.memory for need in needs) <= cluster.node(name).memory


def spanned(cluster: Cluster, placement: Placement) -> Level:
    """How far a placement stretches."""
    (name, *more) = placement.nodes()
    if more:
        return span(cluster, placement.nodes())
    bits = sum(slot.bits for slot in placement.slots)
    return cluster.configuration_of(cluster.node(name)).level_of(bits)


def level_possible(cluster: Cluster, request: Request) -> bool:
    """Whether any placement at all keeps the request's contract."""
    return any(
        any(True for _ in deals(cluster, request, nodes)) for nodes in groups(cluster, request.widest)
    ) or any(_on_one_node(cluster, request, i) for i in range(len(cluster.nodes)))


def fewest_nodes(cluster: Cluster, request: Request) -> int:
    """The fewest nodes at the narrowest level that holds the request; it must fit."""
    if any(_on_one_node(cluster, request, i) for i in range(len(cluster.nodes))):
        return 1
    for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER):
        found = [
            in_use(deal) for nodes in groups(cluster, level) for deal in deals(cluster, request, nodes)
        ]
        if found:
            return min(found)
    raise AssertionError("it does not fit")


def fewest_even_nodes(cluster: Cluster, request: Request) -> int | None:
    """The fewest nodes over which the request can be dealt evenly inside its contract."""
    if any(_on_one_node(cluster, request, i) for i in range(len(cluster.nodes))):
        return 1
    found = [
        in_use(deal)
        for nodes in groups(cluster, request.widest)
        for deal in deals(cluster, request, nodes)
        if is_even([counts for counts in deal if any(counts)])
    ]
    return min(found, default=None)


def is_even(counts: list[tuple[int, ...]]) -> bool:
    """Whether no node has two tasks of a role more than another."""
    return all(max(of_part) - min(of_part) <= 1 for of_part in zip(*counts, strict=True))


def counts_per_node(request: Request, placement: Placement) -> list[tuple[int, ...]]:
    """For each node in use, how many tasks of each part it has."""
    return [
        tuple(
            sum(slot.node == name and slot.role is part.role for slot in placement.slots)
            for part in request.plan.parts
        )
        for name in sorted(placement.nodes())
    ]


def in_use(deal: Deal) -> int:
    """Nodes that take any task."""
    return sum(any(counts) for counts in deal)


def groups(cluster: Cluster, level: Level) -> list[list[int]]:
    """Positions of the nodes of each group at a level above the node; none at a narrower level."""
    if level <= Level.NODE:
        return []
    keys = [
        {Level.RACK: (n.domain, n.rack), Level.DOMAIN: (n.domain,)}.get(level, ())
        for n in cluster.nodes
    ]
    return [[i for i, key in enumerate(keys) if key == each] for each in dict.fromkeys(keys)]


def deals(cluster: Cluster, request: Request, nodes: list[int]) -> Iterator[Deal]:
    """Every way to deal the whole plan to these nodes."""
    parts = request.plan.parts

    def rest(at: int, left: tuple[int, ...]) -> Iterator[Deal]:
        if at == len(nodes):
            if not any(left):
                yield ()
            return
        for counts in _counts(left):
            if holds(cluster, request, nodes[at], counts):
                remaining = tuple(a - b for a, b in zip(left, counts, strict=True))
                yield from ((counts, *more) for more in rest(at + 1, remaining))

    return rest(0, tuple(part.count for part in parts))


def _counts(left: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    if not left:
        yield ()
        return
    for count in range(left[0] + 1):
        yield from ((count, *more) for more in _counts(left[1:]))


def holds(cluster: Cluster, request: Request, at: int, counts: tuple[int, ...]) -> bool:
    """Whether a node has room for this many tasks of each part."""
    node = cluster.nodes[at]
    pairs = zip(request.plan.parts, counts, strict=True)
    held = Plan(tuple(Part(part.role, count, part.need) for part, count in pairs if count))
    if not held.parts:
        return True
    anywhere = not held.devices and request.plan.devices > 0
    allowed = anywhere or node.configuration in request.kinds
    return (
        node.state is NodeState.UP
        and allowed
        and node.free.bit_count() >= held.devices
        and node.millicores >= held.millicores
        and node.memory >= held.memory
    )


def _on_one_node(cluster: Cluster, request: Request, at: int) -> bool:
    counts = tuple(part.count for part in request.plan.parts)
    if not holds(cluster, request, at, counts):
        return False
    node, devices = cluster.nodes[at], request.plan.devices
    layers = cluster.configuration_of(node).layers
    inside = [g for layer in layers if layer.level <= request.widest for g in layer.groups]
    return devices <= 1 or any((g & node.free).bit_count() >= devices for g in inside)
