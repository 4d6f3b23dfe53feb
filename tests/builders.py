"""Small clusters, jobs and views, built by hand for tests."""

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

from muster.model.cluster import Cluster, Node
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.placement import Placement, Slot
from muster.model.pool import PoolTree, single_pool
from muster.model.topology import ConfigurationSet, Layer, Level, Link
from muster.model.view import JobState, Phase, View
from tests.numbers import number

GB = 10**9
TASK = Need(devices=1, millicores=1_000, memory=GB)
"""What a worker of these tests takes unless told otherwise."""
SERVER_TASK = Need(millicores=1_000, memory=GB)
"""And a server."""

LINKS = {
    Level.RACK: Link(10e9, 5e-6),
    Level.DOMAIN: Link(5e9, 10e-6),
    Level.CLUSTER: Link(2e9, 20e-6),
}


def node_set(
    name: str = "a",
    *,
    device_type: str = "A100",
    generation: str = "ampere",
    devices: int = 8,
    sockets: int = 2,
    switches: int = 4,
    cores: int = 32,
    memory: int = 256 * GB,
) -> ConfigurationSet:
    """A node of `devices` evenly split over switches and sockets; 0 devices is a CPU node."""
    everything = (1 << devices) - 1
    layers = [Layer(Level.NODE, (everything,), Link(10e9, 3e-6))]
    if devices and 1 < sockets < devices:
        layers.insert(0, Layer(Level.SOCKET, _split(devices, sockets), Link(16e9, 2e-6)))
    if devices and sockets < switches < devices:
        layers.insert(0, Layer(Level.SWITCH, _split(devices, switches), Link(25e9, 1e-6)))
    return ConfigurationSet(
        name=name,
        device_type=device_type if devices else "",
        generation=generation if devices else "",
        devices=devices,
        device_memory=80 * GB if devices else 0,
        layers=tuple(layers),
        millicores=cores * 1_000,
        memory=memory,
        nic=Link(12.5e9, 5e-6),
    )


def cluster(
    nodes: int = 4,
    configuration: ConfigurationSet | None = None,
    *,
    racks: int = 1,
    domains: int = 1,
) -> Cluster:
    """Alike nodes n0, n1, ... dealt in order to racks r0, r1, ... and those to domains d0, ..."""
    return mixed((nodes, configuration or node_set()), racks=racks, domains=domains)


def mixed(*parts: tuple[int, ConfigurationSet], racks: int = 1, domains: int = 1) -> Cluster:
    """Nodes n0, n1, ... of several configuration sets, this many of each, in order."""
    kinds = [kind for count, kind in parts for _ in range(count)]
    nodes = tuple(
        Node(
            name=f"n{i}",
            configuration=kind.name,
            rack=f"r{i * racks // len(kinds)}",
            domain=f"d{i * racks // len(kinds) * domains // racks}",
            free=kind.all_devices,
            millicores=kind.millicores,
            memory=kind.memory,
        )
        for i, kind in enumerate(kinds)
    )
    return Cluster("test", {kind.name: kind for _, kind in parts}, nodes, LINKS)


def job(
    name: str,
    workers: int = 1,
    *,
    gang: int | None = None,
    most: int | None = None,
    need: Need = TASK,
    servers: int = 0,
    server_need: Need = SERVER_TASK,
    **fields: Any,
) -> Job:
    """A job of `workers` (its least; gang and most are the same unless given) and servers.

    Its number follows from its name unless given.
    """
    spec = RoleSpec(
        Role.WORKER,
        need,
        gang=workers if gang is None else gang,
        least=workers,
        most=workers if most is None else most,
    )
    roles: tuple[RoleSpec, ...] = (spec,)
    if servers:
        roles += (RoleSpec(Role.SERVER, server_need, servers, servers, servers),)
    return Job(name=name, roles=roles, **{"number": number(name), **fields})


def slot(
    node: str, bits: int, index: int = 0, *, role: Role = Role.WORKER, need: Need | None = None
) -> Slot:
    """One task's place; what it needs follows from its bits unless given."""
    if need is None:
        need = replace(TASK, devices=bits.bit_count())
    return Slot(role, index, node, bits, need)


def placement(*places: tuple[str, int] | Slot) -> Placement:
    """A placement of workers 0, 1, ... on (node, bits), or of the slots given."""
    return Placement(
        tuple(
            place if isinstance(place, Slot) else slot(place[0], place[1], index)
            for index, place in enumerate(places)
        )
    )


def running(
    asked: Job, placed: Placement, *, submitted: float = 0.0, started: float = 0.0, **fields: Any
) -> JobState:
    """The state of a job that runs on this placement."""
    fields = {"generation": 1, "run": 1, "phase": Phase.RUNNING, "since": started, **fields}
    return JobState(job=asked, submitted=submitted, started=started, placement=placed, **fields)


def view(
    cluster: Cluster,
    jobs: Iterable[Job | JobState] = (),
    pools: PoolTree | None = None,
    *,
    version: int = 0,
) -> View:
    """A view; a plain job waits since the second of its position; held slots are taken."""
    states = [
        JobState(item, Phase.WAITING, submitted=float(i)) if isinstance(item, Job) else item
        for i, item in enumerate(jobs)
    ]
    for state in states:
        cluster = taken(cluster, state.held())
    by_number = {state.number: state for state in states}
    whole = cluster.devices_by_type()
    return View(version, cluster, pools or single_pool(whole), by_number)


def taken(cluster: Cluster, slots: Iterable[Slot]) -> Cluster:
    """The cluster with these slots taken from what is free; they must be free."""
    nodes = list(cluster.nodes)
    for place in slots:
        at = cluster.index[place.node]
        node = nodes[at]
        assert place.bits & ~node.free == 0, f"{place} is not free"
        nodes[at] = replace(
            node,
            free=node.free & ~place.bits,
            millicores=node.millicores - place.need.millicores,
            memory=node.memory - place.need.memory,
        )
    return replace(cluster, nodes=tuple(nodes))


def _split(devices: int, parts: int) -> tuple[int, ...]:
    """Bitmaps of consecutive devices, as even as can be."""
    bounds = [devices * i // parts for i in range(parts + 1)]
    return tuple((1 << hi) - (1 << lo) for lo, hi in pairwise(bounds))
