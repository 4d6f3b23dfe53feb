"""Requests, clusters and bits in few words, for the tests of this folder."""

from dataclasses import replace

from muster.model.cluster import Cluster
from muster.model.job import Need, Role
from muster.model.placement import Placement
from muster.model.plan import Part, Plan
from muster.model.topology import Level
from muster.place.board import Board
from muster.place.request import Request, Strategy
from tests.builders import GB

WORKER = Need(devices=1, millicores=1_000, memory=GB)
SERVER = Need(millicores=1_000, memory=GB)


def ask(
    workers: int,
    widest: Level = Level.CLUSTER,
    *,
    need: Need = WORKER,
    servers: int = 0,
    server: Need = SERVER,
    kinds: tuple[str, ...] = ("a",),
) -> Request:
    """This many workers, and servers, within a level."""
    parts = [Part(Role.WORKER, workers, need), Part(Role.SERVER, servers, server)]
    return Request(Plan(tuple(part for part in parts if part.count)), kinds, widest)


def left_free(there: Cluster, *free: int) -> Cluster:
    """The cluster with these bitmaps of free devices, node by node."""
    pairs = zip(there.nodes, free, strict=True)
    return replace(there, nodes=tuple(replace(node, free=bits) for node, bits in pairs))


def with_cores(there: Cluster, *cores: int) -> Cluster:
    """The cluster with this many free cores, node by node."""
    pairs = zip(there.nodes, cores, strict=True)
    return replace(there, nodes=tuple(replace(n, millicores=1_000 * c) for n, c in pairs))


def placed(strategy: Strategy, there: Cluster, request: Request) -> Placement:
    """Where the strategy puts a request that must fit."""
    placement = strategy(Board(there), request)
    assert placement is not None
    return placement


def bits(strategy: Strategy, there: Cluster, request: Request) -> dict[str, int]:
    """The devices it takes on each node."""
    return placed(strategy, there, request).bits()


def tasks(placement: Placement) -> dict[str, str]:
    """The tasks on each node, workers as w and servers as s."""
    found: dict[str, str] = {}
    for slot in sorted(placement.slots, key=lambda slot: (slot.node, -len(slot.role))):
        found[slot.node] = found.get(slot.node, "") + slot.role[0]
    return {node: "".join(sorted(letters, reverse=True)) for node, letters in found.items()}
