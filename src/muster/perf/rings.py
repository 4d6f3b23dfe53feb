"""Rings: all devices of a job in one, or one inside each node and one over the nodes.

A ring all-reduce of n members moves 2 (n-1)/n bytes over each hop for each byte of gradients, in
2 (n-1) messages that follow each other (Patarasuk and Yuan 2009).
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from muster.model.job import Role
from muster.model.topology import each_bit
from muster.perf.shape import Shape
from muster.perf.traffic import IDLE, Place, Sums, SyncStage, at_once
from muster.perf.wires import LinkClass, Wire, Wiring

IN_MEMORY = -1
"""The device of a rank without one: its gradients are in the node's memory."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One member of a ring: a device of a task, or a task without devices."""

    host: int
    seat: int
    device: int


def ranks_of(shape: Shape) -> tuple[Rank, ...]:
    """Return the workers' devices in the order of the ring, near ones next to each other."""
    ranks = [
        Rank(i, j, device)
        for i, host in enumerate(shape)
        for j, seat in enumerate(host.seats)
        if seat.role is Role.WORKER
        for device in (each_bit(seat.bits) if seat.bits else (IN_MEMORY,))
    ]
    return tuple(sorted(ranks, key=lambda rank: (rank.host, rank.device)))


def ring(ranks: Sequence[Rank], shape: Shape, wiring: Wiring) -> SyncStage:
    """Return the stage of a ring all-reduce."""
    n = len(ranks)
    if n < 2:
        return IDLE
    return _chain(ranks, (*ranks[1:], ranks[0]), 2 * (n - 1) / n, 2 * (n - 1), shape, wiring)


def hierarchical(shape: Shape, wiring: Wiring) -> list[SyncStage]:
    """Return a ring inside each node, one over a device of each, and a chain back inside each node."""
    by_host: defaultdict[int, list[Rank]] = defaultdict(list)
    for rank in ranks_of(shape):
        by_host[rank.host].append(rank)
    groups = list(by_host.values())
    chains = [_chain(g[:-1], g[1:], 1.0, len(g) - 1, shape, wiring) for g in groups]
    return [
        at_once(ring(group, shape, wiring) for group in groups),
        ring([group[0] for group in groups], shape, wiring),
        at_once(chains),
    ]


def inside_tasks(shape: Shape, wiring: Wiring) -> SyncStage:
    """Return the stage in which the devices of each task sum their gradients."""
    tasks: defaultdict[tuple[int, int], list[Rank]] = defaultdict(list)
    for rank in ranks_of(shape):
        tasks[rank.host, rank.seat].append(rank)
    return at_once(ring(devices, shape, wiring) for devices in tasks.values())


def _chain(
    froms: Sequence[Rank],
    tos: Sequence[Rank],
    load: float,
    messages: int,
    shape: Shape,
    wiring: Wiring,
) -> SyncStage:
    sums, latency = Sums(), 0.0
    for a, b in zip(froms, tos, strict=True):
        latency = max(latency, _hop(a, b, load, sums, shape, wiring))
    return SyncStage(sums.loads(), messages, latency)


def _hop(a: Rank, b: Rank, load: float, sums: Sums, shape: Shape, wiring: Wiring) -> float:
    """Add one transfer to its links; return its latency in s."""
    here, there = shape[a.host], shape[b.host]
    if a.host == b.host and IN_MEMORY not in (a.device, b.device):
        between = wiring.inside(here.configuration).between
        edges, meeting = between[a.device][b.device]
        _lay(edges, a.host, load, sums.out)
        _lay(between[b.device][a.device][0], b.host, load, sums.into)
        return wiring.latency(meeting)
    latency = _leave(a, load, sums.out, shape, wiring) + _leave(b, load, sums.into, shape, wiring)
    if a.host == b.host:
        return latency
    for rank, host, add in ((a, here, sums.out), (b, there, sums.into)):
        add((LinkClass(Wire.NIC, host.configuration), rank.host, 0), load)
        if here.rack != there.rack:
            add((LinkClass(Wire.RACK), host.rack, 0), load)
        if here.domain != there.domain:
            add((LinkClass(Wire.DOMAIN), host.domain, 0), load)
    return latency + wiring.network_latency(here, there)


def _leave(
    rank: Rank, load: float, add: Callable[[Place, float], None], shape: Shape, wiring: Wiring
) -> float:
    """Add a transfer between a rank and its node's memory or card; return half a latency."""
    configuration = shape[rank.host].configuration
    if rank.device != IN_MEMORY:
        _lay(wiring.inside(configuration).exits[rank.device], rank.host, load, add)
        return 0.0
    add((LinkClass(Wire.HOST, configuration), rank.host, rank.seat), load)
    return wiring.host_latency(configuration) / 2


def _lay(
    edges: tuple[tuple[LinkClass, int], ...],
    host: int,
    load: float,
    add: Callable[[Place, float], None],
) -> None:
    for link, below in edges:
        add((link, host, below), load)
