"""What holds of every placement, clearing and migration, on random half-full clusters."""

from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from muster.model.cluster import Cluster, Node, NodeState
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Part, Plan
from muster.model.topology import Level, each_bit
from muster.place.board import Board
from muster.place.clear import Candidate, Clearing, cheapest_clearing
from muster.place.even import even
from muster.place.grow import grow
from muster.place.migrate import Migration, Movable, cheapest_migration
from muster.place.pack import pack
from muster.place.request import Request, Strategy
from muster.place.spread import spread
from tests.builders import LINKS, cluster, node_set, taken
from tests.unit.place import naive

EVERY = settings(max_examples=120, deadline=None, derandomize=True, database=None)
STRATEGIES: tuple[Strategy, ...] = (pack, spread, even)
ABOVE = (Level.RACK, Level.DOMAIN, Level.CLUSTER)

OLD = node_set("old", device_type="V100", devices=4, cores=6, memory=6)
NEW = node_set("new", devices=8, cores=8, memory=8)
TINY = node_set("tiny", devices=2, cores=4, memory=4)
CPU = node_set("cpu", devices=0, cores=4, memory=8)
KINDS = (OLD, NEW, TINY, CPU)


@st.composite
def nodes(draw: st.DrawFn, number: int) -> Node:
    kind = draw(st.sampled_from(KINDS))
    domain = draw(st.sampled_from(["d0", "d0", "d1"]))
    return Node(
        name=f"n{number}",
        configuration=kind.name,
        rack=draw(st.sampled_from(["r0", "r0", "r1"])),
        domain=domain,
        free=draw(st.integers(0, kind.all_devices)),
        millicores=draw(st.integers(0, kind.millicores // 1_000)) * 1_000,
        memory=draw(st.integers(0, kind.memory)),
        state=draw(st.sampled_from([NodeState.UP] * 6 + [NodeState.DRAINING, NodeState.LOST])),
    )


@st.composite
def clusters(draw: st.DrawFn, most: int = 4) -> Cluster:
    """Up to four nodes of several configuration sets; racks of one name lie in two domains."""
    count = draw(st.integers(1, most))
    there = tuple(draw(nodes(i)) for i in range(count))
    return Cluster("half-full", {kind.name: kind for kind in KINDS}, there, LINKS)


@st.composite
def gangs_wider_than_a_node(draw: st.DrawFn, *, servers: bool = True) -> tuple[Cluster, Request]:
    """Three to five small nodes in two racks, and a gang that is likely to need several of them."""
    there = []
    for i in range(draw(st.integers(3, 5))):
        kind = draw(st.sampled_from([OLD, TINY]))
        cores = draw(st.sampled_from([1, 2, kind.millicores // 1_000]))
        free = kind.all_devices & ~draw(st.sampled_from([0, 0, 1, 3]))
        rack, domain = draw(st.sampled_from([("r0", "d0"), ("r0", "d0"), ("r1", "d0"), ("r0", "d1")]))
        there.append(Node(f"n{i}", kind.name, rack, domain, free, cores * 1_000, kind.memory))
    now = Cluster("small", {kind.name: kind for kind in KINDS}, tuple(there), LINKS)
    parts = [Part(Role.WORKER, draw(st.integers(2, 6)), Need(draw(st.integers(1, 2)), 1_000, 1))]
    if servers and draw(st.booleans()):
        need = draw(st.sampled_from([Need(0, 1_000, 0), Need(0, 2_000, 1), Need(1, 0, 0)]))
        parts.append(Part(Role.SERVER, draw(st.integers(1, 3)), need))
    return now, Request(Plan(tuple(parts)), ("old", "tiny"), draw(st.sampled_from(ABOVE)))


def needs(devices: st.SearchStrategy[int]) -> st.SearchStrategy[Need]:
    cores = st.sampled_from([0, 500, 1_000, 2_000])
    return st.builds(Need, devices=devices, millicores=cores, memory=st.integers(0, 2))


@st.composite
def requests(draw: st.DrawFn, *, servers: bool = True) -> Request:
    most = st.sampled_from([0, 1, 1, 2, 3, 4])
    parts = [Part(Role.WORKER, draw(st.integers(1, 5)), draw(needs(most)))]
    if servers and draw(st.booleans()):
        few = st.sampled_from([0, 0, 1, 2])
        parts.append(Part(Role.SERVER, draw(st.integers(1, 3)), draw(needs(few))))
    kinds = draw(st.sampled_from([("new",), ("old", "new"), ("new", "tiny", "old")]))
    widest = draw(st.sampled_from([level for level in Level if level > Level.DEVICE]))
    return Request(Plan(tuple(parts)), kinds, widest)


# Boards


@dataclass(frozen=True)
class Step:
    """One thing done to a board: what, on which node, with which bits and cores."""

    verb: str
    node: int
    bits: int
    cores: int


steps = st.builds(
    Step,
    st.sampled_from(["take", "take", "put back", "withhold", "restore", "lift"]),
    st.integers(0, 3),
    st.integers(0, 255),
    st.integers(0, 2),
)


def assert_like_new(board: Board, now: Cluster) -> None:
    """Every index of the board is what it would be if the board were made from the cluster now."""
    fresh = Board(now)
    up = [i for i, usable in enumerate(board.usable) if usable]
    assert board.free == fresh.free
    assert [board.millicores[i] for i in up] == [fresh.millicores[i] for i in up]
    assert [board.memory[i] for i in up] == [fresh.memory[i] for i in up]
    for name, shelf in board.shelves.items():
        other = fresh.shelves[name]
        assert shelf.by_shape == other.by_shape
        assert shelf.by_count == other.by_count
        assert (shelf.per_rack == other.per_rack).all()
        assert shelf.members == other.members
        assert all(shelf.table.shape(shelf.sample[shape]) == shape for shape in shelf.by_shape)


def slot_for(now: Cluster, step: Step) -> Slot:
    """What a step is about: those of its bits and cores that are free now."""
    node = now.nodes[step.node % len(now.nodes)]
    cores = min(step.cores * 1_000, node.millicores)
    bits = node.free & step.bits
    return Slot(Role.WORKER, 0, node.name, bits, Need(bits.bit_count(), cores, 0))


def given_back(now: Cluster, place: Slot) -> Cluster:
    at = now.index[place.node]
    node = now.nodes[at]
    node = replace(
        node, free=node.free | place.bits, millicores=node.millicores + place.need.millicores
    )
    return replace(now, nodes=(*now.nodes[:at], node, *now.nodes[at + 1 :]))


@EVERY
@given(clusters(), st.lists(steps, max_size=12))
def test_a_board_stays_equal_to_one_made_anew(now: Cluster, done: list[Step]) -> None:
    board = Board(now)
    held: list[Slot] = []
    kept = []
    for step in done:
        place = slot_for(now, step)
        if step.verb == "take":
            board.take([place])
            held.append(place)
            now = taken(now, [place])
        elif step.verb == "put back" and held:
            back = held.pop(step.bits % len(held))
            board.put_back([back])
            now = given_back(now, back)
        elif step.verb == "withhold":
            kept.append((board.withhold([place]), place))
            now = taken(now, [place])
        elif step.verb == "restore" and kept:
            entry, back = kept.pop(step.bits % len(kept))
            board.restore(entry)
            now = given_back(now, back)
        elif step.verb == "lift" and held:
            lifted = held[: 1 + step.bits % len(held)]
            with board.lifted(lifted):
                inside = now
                for back in lifted:
                    inside = given_back(inside, back)
                assert_like_new(board, inside)
        assert_like_new(board, now)


@EVERY
@given(clusters(), st.integers(0, 255), st.integers(0, 9))
def test_withholding_takes_only_what_is_free_and_restoring_brings_just_that_back(
    now: Cluster, bits: int, cores: int
) -> None:
    board = Board(now)
    before = naive.state_of(board)
    version = board.version
    asked = [Slot(Role.WORKER, 0, node.name, bits, Need(0, cores * 1_000, 3)) for node in now.nodes]
    kept = board.withhold(asked)
    assert min(board.millicores) >= 0
    assert min(board.memory) >= 0
    assert all(free & bits == 0 for free in board.free)
    board.restore(kept)
    board.version = version
    assert naive.state_of(board) == before


# Strategies


@EVERY
@given(clusters(), requests(), st.sampled_from(STRATEGIES))
def test_a_placement_is_whole_on_free_devices_and_inside_the_contract(
    now: Cluster, request: Request, strategy: Strategy
) -> None:
    placement = strategy(Board(now), request)
    if placement is not None:
        naive.assert_valid(now, request, placement)


@settings(EVERY, max_examples=250)
@given(clusters(), requests(), st.sampled_from(STRATEGIES))
def test_whatever_fits_in_some_way_is_placed(
    now: Cluster, request: Request, strategy: Strategy
) -> None:
    found = strategy(Board(now), request) is not None
    assert found == naive.level_possible(now, request)


@EVERY
@given(clusters(), requests(), st.sampled_from(STRATEGIES))
def test_placing_leaves_the_board_as_it_was_and_answers_the_same_again(
    now: Cluster, request: Request, strategy: Strategy
) -> None:
    board = Board(now)
    before = naive.state_of(board)
    first = strategy(board, request)
    assert naive.state_of(board) == before
    assert strategy(board, request) == first == strategy(Board(now), request)


@EVERY
@given(gangs_wider_than_a_node(), st.sampled_from(STRATEGIES))
def test_a_gang_wider_than_a_node_is_placed_inside_its_contract_if_it_can_be(
    asked: tuple[Cluster, Request], strategy: Strategy
) -> None:
    now, request = asked
    placement = strategy(Board(now), request)
    assert (placement is not None) == naive.level_possible(now, request)
    if placement is not None:
        naive.assert_valid(now, request, placement)


@EVERY
@given(gangs_wider_than_a_node(servers=False))
def test_pack_takes_the_fewest_nodes_at_the_narrowest_level(asked: tuple[Cluster, Request]) -> None:
    now, request = asked
    placement = pack(Board(now), request)
    if placement is not None:
        assert len(placement.nodes()) == naive.fewest_nodes(now, request)


@EVERY
@given(clusters(), requests(servers=False))
def test_pack_never_passes_over_a_closer_place_on_one_node(now: Cluster, request: Request) -> None:
    placement = pack(Board(now), request)
    if placement is None or len(placement.nodes()) > 1 or not request.plan.devices:
        return
    level = naive.spanned(now, placement)
    for narrower in Level:
        if narrower < level:
            assert not naive.level_possible(now, replace(request, widest=narrower))


@EVERY
@given(clusters(), needs(st.just(1)))
def test_a_single_device_is_packed_where_the_fewest_others_are_free(now: Cluster, need: Need) -> None:
    request = Request(Plan((Part(Role.WORKER, 1, need),)), ("new",))
    placement = pack(Board(now), request)
    if placement is not None:
        (name,) = placement.nodes()
        fitting = [n for i, n in enumerate(now.nodes) if n.free and naive.holds(now, request, i, (1,))]
        assert now.node(name).free.bit_count() == min(n.free.bit_count() for n in fitting)


def crowd(now: Cluster, node: Node, device: int) -> tuple[int, int, int]:
    """Busy devices below the same switch, below the same socket and on the same node."""
    kind = now.configuration_of(node)
    counts = []
    for level in (Level.SWITCH, Level.SOCKET, Level.NODE):
        around = [g for layer in kind.layers if layer.level is level for g in layer.groups]
        mine = [g for g in around if g >> device & 1]
        counts.append((mine[0] & ~node.free).bit_count() if mine else 0)
    return counts[0], counts[1], counts[2]


@EVERY
@given(clusters(), needs(st.just(1)))
def test_a_single_device_is_spread_to_where_the_fewest_neighbours_are(now: Cluster, need: Need) -> None:
    request = Request(Plan((Part(Role.WORKER, 1, need),)), ("new", "old", "tiny"))
    placement = spread(Board(now), request)
    if placement is None:
        return
    (slot,) = placement.slots
    chosen = crowd(now, now.node(slot.node), slot.bits.bit_length() - 1)
    others = [
        crowd(now, node, device)
        for i, node in enumerate(now.nodes)
        if naive.holds(now, request, i, (1,))
        for device in each_bit(node.free)
    ]
    assert chosen == min(others)


@EVERY
@given(gangs_wider_than_a_node())
def test_even_takes_the_fewest_nodes_over_which_an_equal_split_fits(
    asked: tuple[Cluster, Request],
) -> None:
    now, request = asked
    placement = even(Board(now), request)
    if placement is None:
        return
    fewest = naive.fewest_even_nodes(now, request)
    if fewest is None:
        assert placement == pack(Board(now), request)
        return
    assert len(placement.nodes()) == fewest
    assert naive.is_even(naive.counts_per_node(request, placement))


# Growing


@settings(EVERY, max_examples=150)
@given(clusters(), requests(), requests())
def test_growing_keeps_the_contract_and_takes_only_what_is_free(
    now: Cluster, first: Request, more: Request
) -> None:
    held = pack(Board(now), first)
    if held is None:
        return
    now = taken(now, held.slots)
    counts = {part.role: part.count for part in more.plan.parts}
    parts = tuple(replace(p, count=counts.get(p.role, 0)) for p in first.plan.parts)
    request = replace(first, plan=Plan(tuple(p for p in parts if p.count)))
    board = Board(now)
    before = naive.state_of(board)
    slots = grow(board, request, held)
    assert naive.state_of(board) == before
    naive.assert_fits(now, request, Placement(slots))
    grown = held.with_slots(slots)
    assert naive.spanned(now, grown) <= request.widest
    assert all(grown.count(role) <= held.count(role) + n for role, n in counts.items())
    keys = [(slot.role, slot.index) for slot in grown.slots]
    assert len(keys) == len(set(keys))


@settings(EVERY, max_examples=150)
@given(clusters(), requests(servers=False))
def test_a_job_grows_whenever_one_more_worker_fits_beside_it(now: Cluster, request: Request) -> None:
    held = pack(Board(now), request)
    if held is None:
        return
    now = taken(now, held.slots)
    (part,) = request.plan.parts
    slots = grow(Board(now), replace(request, plan=Plan((replace(part, count=2),))), held)
    one = Request(Plan((replace(part, count=1),)), request.kinds)
    possible = [
        held.with_slots(Slot(Role.WORKER, 99, node.name, bits, part.need) for bits in [bits])
        for i, node in enumerate(now.nodes)
        if naive.holds(now, one, i, (1,))
        for bits in some_bits(node.free, part.need.devices)
    ]
    fits = any(naive.spanned(now, grown) <= request.widest for grown in possible)
    assert bool(slots) == fits


def some_bits(free: int, k: int) -> list[int]:
    return [sum(1 << i for i in chosen) for chosen in combinations(list(each_bit(free)), k)]


# Clearing and migrating


@dataclass(frozen=True)
class Busy:
    """A cluster, and jobs that hold something on it, each with a price."""

    now: Cluster
    candidates: tuple[Candidate, ...]


@st.composite
def busy(draw: st.DrawFn, *, most: int = 3, single: bool = False) -> Busy:
    """Nodes of four or eight devices, in one or two racks, filled with up to seven small jobs."""
    kind = draw(st.sampled_from([node_set("new", cores=8, memory=8), replace(OLD, name="new")]))
    now = cluster(draw(st.integers(1, most)), kind, racks=draw(st.integers(1, 2)))
    candidates: list[Candidate] = []
    for each in range(draw(st.integers(1, 7))):
        tasks = 1 if single else draw(st.integers(1, 3))
        slots: list[Slot] = []
        for index in range(tasks):
            node = now.nodes[draw(st.integers(0, len(now.nodes) - 1))]
            free = list(each_bit(node.free))
            if free and node.millicores >= 1_000:
                bit = 1 << draw(st.sampled_from(free))
                slots.append(Slot(Role.WORKER, index, node.name, bit, Need(1, 1_000, 1)))
                now = taken(now, slots[-1:])
        if slots:
            cost = float(draw(st.integers(1, 9)))
            candidates.append(Candidate(each, tuple(slots), cost))
    return Busy(now, tuple(candidates))


def asking(tasks: int, need: Need, widest: Level) -> Request:
    return Request(Plan((Part(Role.WORKER, tasks, need),)), ("new",), widest)


gangs_in_a_node = st.builds(
    asking,
    st.integers(1, 8),
    st.sampled_from([Need(1, 1_000, 1), Need(1, 0, 0), Need(2, 500, 0)]),
    st.sampled_from([Level.SWITCH, Level.SOCKET, Level.NODE]),
)
gangs_over_nodes = st.builds(
    asking,
    st.integers(2, 12),
    st.sampled_from([Need(1, 1_000, 1), Need(2, 1_000, 0), Need(0, 3_000, 0)]),
    st.sampled_from(ABOVE),
)


def without(now: Cluster, gone: tuple[Candidate, ...]) -> Cluster:
    for candidate in gone:
        for place in candidate.slots:
            now = given_back(now, place)
            at = now.index[place.node]
            node = now.nodes[at]
            node = replace(node, memory=node.memory + place.need.memory)
            now = replace(now, nodes=(*now.nodes[:at], node, *now.nodes[at + 1 :]))
    return now


def assert_clears(at: Busy, request: Request, clearing: Clearing) -> None:
    assert len(set(clearing.removed)) == len(clearing.removed)
    naive.assert_valid(without(at.now, clearing.removed), request, clearing.placement)


@EVERY
@given(busy(), gangs_in_a_node)
def test_inside_a_node_the_cheapest_of_all_sets_is_removed(at: Busy, request: Request) -> None:
    board = Board(at.now)
    before = naive.state_of(board)
    clearing = cheapest_clearing(board, request, at.candidates)
    assert naive.state_of(board) == before
    costs = [
        sum(c.cost for c in gone)
        for size in range(len(at.candidates) + 1)
        for gone in combinations(at.candidates, size)
        if naive.level_possible(without(at.now, gone), request)
    ]
    assert (None if clearing is None else clearing.cost) == min(costs, default=None)
    if clearing is not None:
        assert_clears(at, request, clearing)


@EVERY
@given(busy(most=4), gangs_over_nodes)
def test_across_nodes_nothing_is_removed_that_could_have_stayed(at: Busy, request: Request) -> None:
    board = Board(at.now)
    before = naive.state_of(board)
    clearing = cheapest_clearing(board, request, at.candidates)
    assert naive.state_of(board) == before
    if clearing is None:
        assert not naive.level_possible(without(at.now, at.candidates), request)
        return
    assert_clears(at, request, clearing)
    for spared in clearing.removed:
        gone = tuple(c for c in clearing.removed if c is not spared)
        assert not naive.level_possible(without(at.now, gone), request)


def movable(candidate: Candidate, widest: Level) -> Movable:
    count, need = len(candidate.slots), candidate.slots[0].need
    return Movable(candidate, asking(count, need, widest))


def assert_moves(at: Busy, request: Request, movables: list[Movable], found: Migration) -> None:
    """Moved jobs find free places inside their contracts; then the gang fits on what they left."""
    by_job = {m.candidate.job: m for m in movables}
    now = at.now
    for move in found.moves:
        naive.assert_valid(now, by_job[move.job].request, move.placement)
        now = taken(now, move.placement.slots)
    gone = tuple(by_job[move.job].candidate for move in found.moves)
    assert found.cost == sum(candidate.cost for candidate in gone)
    naive.assert_valid(without(now, gone), request, found.placement)


@EVERY
@given(busy(most=4), st.one_of(gangs_in_a_node, gangs_over_nodes), st.sampled_from(Level))
def test_moved_jobs_keep_their_contracts_and_the_gang_fits_afterwards(
    at: Busy, request: Request, widest: Level
) -> None:
    movables = [movable(candidate, max(widest, Level.NODE)) for candidate in at.candidates]
    board = Board(at.now)
    before = naive.state_of(board)
    found = cheapest_migration(board, request, movables)
    assert naive.state_of(board) == before
    if found is not None:
        assert_moves(at, request, movables, found)


@EVERY
@given(busy(single=True), st.integers(2, 8), st.sampled_from([Level.SWITCH, Level.SOCKET, Level.NODE]))
def test_the_cheapest_set_of_one_device_jobs_is_moved(at: Busy, devices: int, widest: Level) -> None:
    request = asking(devices, Need(devices=1), widest)
    movables = [movable(candidate, Level.CLUSTER) for candidate in at.candidates]
    found = cheapest_migration(Board(at.now), request, movables)
    costs = [
        sum(c.cost for c in gone)
        for size in range(len(at.candidates) + 1)
        for gone in combinations(at.candidates, size)
        if can_move(at.now, gone, request)
    ]
    assert (None if found is None else found.cost) == min(costs, default=None)


def can_move(now: Cluster, gone: tuple[Candidate, ...], request: Request) -> bool:
    """Whether some place of the gang leaves a free device with a core for each job that is moved."""
    after = without(now, gone)
    for i, node in enumerate(after.nodes):
        kind = after.configuration_of(node)
        for bits in some_bits(node.free, request.plan.devices):
            if kind.level_of(bits) <= request.widest:
                room = 0
                for j, other in enumerate(now.nodes):
                    free = other.free & ~bits if i == j else other.free
                    room += min(free.bit_count(), other.millicores // 1_000, other.memory)
                if room >= len(gone):
                    return True
    return False
