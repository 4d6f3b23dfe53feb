"""Placements, link sets and ways to synchronise, as values of Muster: what is predicted and measured.

A node of the cluster is a network namespace (support/netns.py), a device is one worker's process, and
the node's nic is its shaped link. Pure: no torch, no namespaces.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from muster.model.cluster import Cluster, Node
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Part, Plan, Sync
from muster.model.profile import ModelProfile
from muster.model.topology import ConfigurationSet, Layer, Level, Link

WIDTHS = (384, 1024, 1024, 768, 10)
"""Features from layer to layer: 2.24 M parameters, 9 MB of gradients, in matrices of unequal size."""
BATCH = 128
"""Samples of a worker's step: tens of milliseconds of compute, so that overlap can be seen."""
BUCKET = 1 << 20
"""Gradients travel together in buckets of this many bytes."""
CHUNK = 64 * 1024 * 4
"""Bytes pushed to and pulled from an owner at once: 64 k floats."""

DEVICES = 2
"""Worker slots of a node."""
PAYLOAD = 1448 / 1514
"""TCP payload in one Ethernet frame over the bytes that a token bucket counts for it: 1500 less 20
(IP), 20 (TCP) and 12 (time stamps), over 1500 plus the frame's header of 14."""
LATENCY = 1e-4
"""Seconds one way between two nodes on an idle link: two virtual interfaces and a bridge."""
INSIDE = Link(2e9, 5e-5)
"""Between two processes of a node, by loopback: as the description of such a node would state it."""
BACKPLANE = Link(1e10, 0.0)
"""The switch itself limits nothing: each node's own link does."""

EVEN, ONE_SLOW, TWO_SLOW = (200, 200, 200, 200), (200, 200, 200, 100), (400, 400, 100, 100)
"""Links of four nodes, Mbit/s."""

WORKER = Need(devices=1)
SERVER = Need()


@dataclass(frozen=True, slots=True)
class Case:
    """One plan on one placement, over links of these rates (Mbit/s, by node)."""

    name: str
    rates: tuple[float, ...]
    cluster: Cluster
    plan: Plan
    placement: Placement


def payload_rate(rate: float) -> float:
    """Return bytes/s of payload over a link shaped to this many Mbit/s."""
    return rate * 1e6 / 8 * PAYLOAD


def device_type(workers: int) -> str:
    """Return a worker's share of the machine's cores."""
    return f"cores-of-{workers}"


def cluster_of(rates: Sequence[float], workers: int) -> Cluster:
    """Return one node for each link, one configuration set for each rate, for this many workers."""
    sets = {f"link{rate:g}": _configuration(rate, workers) for rate in sorted(set(rates))}
    nodes = tuple(
        Node(f"n{i}", f"link{rate:g}", "rack0", "domain0", (1 << DEVICES) - 1, 8_000, 8 << 30)
        for i, rate in enumerate(rates)
    )
    above = dict.fromkeys((Level.RACK, Level.DOMAIN, Level.CLUSTER), BACKPLANE)
    return Cluster("namespaces", sets, nodes, above)


def one_worker_each(cluster: Cluster) -> Cluster:
    """The same nodes with room for one worker on each, as the plans of `plan_cases` have it."""
    layers = (Layer(Level.NODE, (1,), INSIDE),)
    sets = {n: replace(k, devices=1, layers=layers) for n, k in cluster.configurations.items()}
    nodes = tuple(replace(node, free=1) for node in cluster.nodes)
    return replace(cluster, configurations=sets, nodes=nodes)


def _configuration(rate: float, workers: int) -> ConfigurationSet:
    return ConfigurationSet(
        name=f"link{rate:g}",
        device_type=device_type(workers),
        generation="cpu",
        devices=DEVICES,
        device_memory=2 << 30,
        layers=(Layer(Level.NODE, ((1 << DEVICES) - 1,), INSIDE),),
        millicores=8_000,
        memory=8 << 30,
        nic=Link(payload_rate(rate), LATENCY),
    )


def place(workers: Sequence[int], servers: Sequence[int] = ()) -> Placement:
    """This many workers on each node, numbered node by node, and a server on each node named."""
    homes = [(node, bit) for node, count in enumerate(workers) for bit in range(count)]
    slots = [Slot(Role.WORKER, i, f"n{n}", 1 << bit, WORKER) for i, (n, bit) in enumerate(homes)]
    slots += [Slot(Role.SERVER, i, f"n{node}", 0, SERVER) for i, node in enumerate(servers)]
    return Placement(tuple(slots))


def filled_owners(rates: Sequence[float]) -> tuple[float, ...]:
    """Shares that let all links finish together, one worker on each node.

    With n workers, link j carries (1 + (n-2) o_j) · S each way: o_j = max(0, level · rate_j - 1)/(n-2).
    """
    n = len(rates)
    if n <= 2:
        return tuple(1 / n for _ in rates)
    low, high = 0.0, n / min(rates)
    for _ in range(60):
        level = (low + high) / 2
        total = sum(max(0.0, (level * rate - 1) / (n - 2)) for rate in rates)
        low, high = (low, level) if total > 1 else (level, high)
    shares = [max(0.0, (high * rate - 1) / (n - 2)) for rate in rates]
    return tuple(share / sum(shares) for share in shares)


def share_out(total: int, shares: Sequence[float]) -> tuple[tuple[int, int], ...]:
    """Cut `total` elements into one range for each share, in order and without a gap."""
    edges, reached = [0], 0.0
    for share in shares:
        reached += share
        edges.append(round(total * min(reached, 1.0)))
    edges[-1] = total
    return tuple(pairwise(edges))


def buckets(profile: ModelProfile, limit: int = BUCKET) -> tuple[tuple[str, ...], ...]:
    """Which tensors travel together: in the order they become ready, until `limit` bytes are there."""
    groups: list[list[str]] = [[]]
    size = 0
    for tensor in profile.tensors:
        if size >= limit:
            groups.append([])
            size = 0
        groups[-1].append(tensor.name)
        size += tensor.bytes
    return tuple(tuple(group) for group in groups)


def make_case(
    rates: Sequence[float],
    workers: Sequence[int],
    sync: Sync,
    *,
    owners: tuple[float, ...] = (),
    servers: Sequence[int] = (),
    overlap: Overlap = Overlap.FULL,
) -> Case:
    """A case of these links, workers on each node, servers on the nodes named."""
    parts = [Part(Role.WORKER, sum(workers), WORKER)]
    parts += [Part(Role.SERVER, len(servers), SERVER)] if servers else []
    plan = Plan(tuple(parts), sync, (BATCH,) * sum(workers), owners, overlap)
    words = [sync.value, "+".join(map(str, workers)), "/".join(f"{rate:g}" for rate in rates)]
    words += [f"servers@{','.join(map(str, servers))}"] if servers else []
    words += ["filled"] if owners else []
    words += [] if overlap is Overlap.FULL else [f"overlap={overlap}"]
    cluster = cluster_of(rates, sum(workers))
    return Case(" ".join(words), tuple(rates), cluster, plan, place(workers, servers))


def all_cases() -> tuple[Case, ...]:
    """What is measured, in pairs of one kind: the first of each pair to learn from, the second not."""
    return (*_rings(), *_hierarchies(), *_shards(), *_servers(), *other_cases())


def _rings() -> tuple[Case, ...]:
    return (
        make_case((100, 100), (1, 1), Sync.RING),
        make_case((400, 400), (1, 1), Sync.RING),
        make_case(EVEN, (1, 1, 1, 1), Sync.RING),
        make_case(ONE_SLOW, (1, 1, 1, 1), Sync.RING),
        make_case((400, 400), (2, 2), Sync.RING),
        make_case((200, 400, 200), (1, 1, 1), Sync.RING),
        make_case((200, 200, 200), (1, 1, 1), Sync.RING, overlap=Overlap.NONE),
        make_case((100, 200), (1, 1), Sync.RING, overlap=Overlap.NONE),
    )


def _hierarchies() -> tuple[Case, ...]:
    way = Sync.HIERARCHICAL
    return (
        make_case((200, 200), (2, 2), way),
        make_case((400, 200, 200), (2, 1, 1), way),
        make_case((400, 200), (2, 2), way, overlap=Overlap.NONE),
        make_case((400, 400, 200), (2, 2, 1), way, overlap=Overlap.NONE),
    )


def _shards() -> tuple[Case, ...]:
    way, four, three = Sync.SHARDED, (1, 1, 1, 1), (100, 200, 400)
    filled = filled_owners(three)
    return (
        make_case((200, 200), (1, 1), way),
        make_case(EVEN, four, way),
        make_case(ONE_SLOW, four, way, owners=filled_owners(ONE_SLOW)),
        make_case(TWO_SLOW, four, way, owners=filled_owners(TWO_SLOW)),
        make_case(three, (1, 1, 1), way, overlap=Overlap.NONE),
        make_case(three, (1, 1, 1), way, owners=filled, overlap=Overlap.NONE),
    )


def _servers() -> tuple[Case, ...]:
    way, shares = Sync.DEDICATED, (2 / 3, 1 / 3)
    late = Overlap.NONE
    return (
        make_case((200, 200, 400), (1, 1, 0), way, servers=(2,)),
        make_case((200, 200), (1, 1), way, servers=(0, 1)),
        make_case((200, 200, 200, 400), (1, 1, 1, 0), way, servers=(3,), overlap=late),
        make_case((400, 200, 100), (1, 1, 1), way, servers=(0, 1), owners=shares, overlap=late),
    )


def other_cases() -> tuple[Case, ...]:
    """Links and placements that nothing in the predictor was looked at with."""
    mixed = (120, 240, 360)
    return (
        make_case((300, 150), (1, 1), Sync.RING),
        make_case(mixed, (1, 1, 1), Sync.RING),
        make_case((150, 300, 300, 300), (1, 1, 1, 1), Sync.SHARDED),
        make_case(mixed, (1, 1, 1), Sync.SHARDED, owners=filled_owners(mixed)),
        make_case((250, 250, 125), (1, 1, 0), Sync.DEDICATED, servers=(2,)),
        make_case((180, 180, 180, 180), (1, 1, 0, 0), Sync.DEDICATED, servers=(2, 3)),
    )


def quick_cases() -> tuple[Case, ...]:
    """Two rings and two sets of servers, those that take least."""
    rings, servers = _rings(), _servers()
    return (rings[4], rings[1], servers[0], servers[1])


def plan_cases() -> tuple[Case, ...]:
    """Plans of one job on a small cluster of unequal links, at most one worker on each node."""
    rates = (400, 200, 200, 100)
    four, three, two = (1, 1, 1, 1), (1, 1, 1, 0), (1, 1, 0, 0)
    filled3 = filled_owners(rates[:3])
    return (
        make_case(rates, four, Sync.RING),
        make_case(rates, four, Sync.SHARDED),
        make_case(rates, four, Sync.SHARDED, owners=filled_owners(rates)),
        make_case(rates, four, Sync.DEDICATED, servers=(0,)),
        make_case(rates, four, Sync.DEDICATED, servers=(0, 1, 2), owners=(0.5, 0.25, 0.25)),
        make_case(rates, three, Sync.RING),
        make_case(rates, three, Sync.SHARDED, owners=filled3),
        make_case(rates, three, Sync.DEDICATED, servers=(0,)),
        make_case(rates, two, Sync.RING),
        make_case(rates, two, Sync.SHARDED),
    )
