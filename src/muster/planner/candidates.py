"""Candidate plans for one layout of workers (Dike's Generator, seed 000).

Gradients travel round rings, to parameters sharded over the workers, or to dedicated servers, beside
the workers or apart from them; tasks have one device each or all of a node's. Parts of the batch are
balanced, owners' parts water-filled. A candidate is complete: plan and placement, ready to be priced.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from muster.model.choice import choice_table
from muster.model.cluster import Node, NodeState
from muster.model.job import Job, Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Part, Plan, Sync
from muster.model.profile import ModelProfile
from muster.perf.balance import Bearer, shares
from muster.perf.costs import price
from muster.perf.estimate import Unknown
from muster.perf.links import LinkEstimate
from muster.perf.memory import most_samples, server_bytes, worker_bytes
from muster.perf.predict import Predictor
from muster.perf.rings import ranks_of, ring
from muster.perf.shape import Host, Seat
from muster.perf.wires import LinkClass, Wire
from muster.planner.layout import Layout, Rack, near_nodes
from muster.planner.owners import Edge, water_filled
from muster.planner.owners import Rack as Owners

SERVER_CORES = 2_000
"""Thousandths of a core for a server of a job that says nothing of servers."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A plan and its placement."""

    plan: Plan
    placement: Placement


@dataclass(frozen=True, slots=True)
class Crew:
    """Workers in their places with their parts of the batch, before it is said how they synchronise."""

    slots: tuple[Slot, ...]
    batch: tuple[int, ...]

    def by_node(self) -> dict[str, list[Slot]]:
        """The workers on each node."""
        found: dict[str, list[Slot]] = {}
        for slot in self.slots:
            found.setdefault(slot.node, []).append(slot)
        return found


class Workshop:
    """Builds candidates for one job on one cluster."""

    def __init__(self, predictor: Predictor, job: Job, profile: ModelProfile) -> None:
        self._predictor = predictor
        self._cluster = predictor.cluster
        self._profile = profile
        self._need = job.workers.need
        self._server = next((spec for spec in job.roles if spec.role is Role.SERVER), None)
        self._bandwidths: dict[LinkClass, float] = {}
        self._rings: dict[tuple[str, int], float] = {}
        self._bearers: dict[tuple[str, int], Bearer | Unknown] = {}

    def crew(self, layout: Layout, batch: int, *, whole: bool) -> Crew | None:
        """Workers for a layout; `whole`: one task for each node. None if they do not fit."""
        slots: list[Slot] = []
        bearers: list[Bearer] = []
        for node, devices in near_nodes(layout):
            here = self._on_node(node, devices, len(slots), whole=whole)
            bearer = self.bearer_on(node.configuration, devices // len(here))
            if isinstance(bearer, Unknown):
                return None
            slots += here
            bearers += [bearer] * len(here)
        parts = shares(bearers, batch)
        return None if parts is None else Crew(tuple(slots), parts)

    def ring(self, crew: Crew, *, hierarchical: bool = False) -> Candidate:
        """One ring, or rings inside the nodes and one over them."""
        return self._made(crew, Sync.HIERARCHICAL if hierarchical else Sync.RING)

    def sharded(self, crew: Crew) -> Candidate:
        """Parameters on the workers, each with the part that lets all be done together."""
        nodes = crew.by_node()
        n = len(crew.slots)
        held = self._filled(nodes, nodes, lambda k, port: (1 / port, (n - 2) / k / port))
        owners = tuple(held[slot.node] / len(nodes[slot.node]) for slot in crew.slots)
        return self._made(crew, Sync.SHARDED, owners=owners)

    def _filled(
        self,
        workers: Mapping[str, Sequence[Slot]],
        owners: Mapping[str, Sequence[object]],
        port_edge: Callable[[int, float], Edge],
    ) -> dict[str, float]:
        """The share of each node that has owners: by its card, its owners' ports and its rack."""
        n = sum(len(slots) for slots in workers.values())
        racks: dict[Rack, list[str]] = {}
        behind: dict[Rack, int] = {}
        for name in dict.fromkeys((*workers, *owners)):
            node = self._cluster.node(name)
            rack = (node.domain, node.rack)
            behind[rack] = behind.get(rack, 0) + len(workers.get(name, ()))
            if name in owners:
                racks.setdefault(rack, []).append(name)
        floor = max(len(slots) / self._rates(name)[0] for name, slots in workers.items())
        groups = []
        for rack, names in racks.items():
            edges = [edge(behind[rack], n, self.rack())] if len(behind) > 1 else []
            each = [(self._edges(x, workers, owners, n, port_edge), 1) for x in names]
            groups.append(Owners(edges, each))
        return {
            name: share
            for names, shares_ in zip(racks.values(), water_filled(groups, floor), strict=True)
            for name, share in zip(names, shares_, strict=True)
        }

    def _edges(
        self,
        name: str,
        workers: Mapping[str, Sequence[Slot]],
        owners: Mapping[str, Sequence[object]],
        n: int,
        port_edge: Callable[[int, float], Edge],
    ) -> list[Edge]:
        card, port = self._rates(name)
        return [edge(len(workers.get(name, ())), n, card), port_edge(len(owners[name]), port)]

    def server_nodes(self, crew: Crew, *, apart: bool) -> list[Node]:
        """Nodes for servers: those of the workers, or others, those without devices first."""
        workers = crew.by_node()
        racks = {self._cluster.node(name).rack for name in workers}
        nodes = [
            node
            for node in self._cluster.nodes
            if (node.name not in workers) == apart
            and node.state is NodeState.UP
            and self._has_room(node, workers.get(node.name, []))
        ]
        return sorted(nodes, key=lambda node: self._server_order(node, racks))

    def server_range(self, nodes: Sequence[Node]) -> tuple[int, int]:
        """The fewest servers and the most: the job's, else as many as it takes to fill every card."""
        if self._server is not None:
            return self._server.gang, self._server.most if nodes else 0
        rates = [self._rates(node.name) for node in nodes]
        return 1, sum(max(1, round(nic / port)) for nic, port in rates)

    def dedicated(self, crew: Crew, nodes: Sequence[Node], servers: int) -> Candidate:
        """So many servers on these nodes in turn, each with the part that lets all be done together."""
        n = len(crew.slots)
        hosts = [nodes[i % len(nodes)] for i in range(servers)]
        tasks: dict[str, list[int]] = {}
        for i, host in enumerate(hosts):
            tasks.setdefault(host.name, []).append(i)
        held = self._filled(crew.by_node(), tasks, lambda k, port: (0.0, n / k / port))
        owners = tuple(held[host.name] / len(tasks[host.name]) for host in hosts)
        slots = tuple(
            Slot(Role.SERVER, i, host.name, 0, self._server_need(owners[i]))
            for i, host in enumerate(hosts)
        )
        return self._made(crew, Sync.DEDICATED, owners=owners, servers=slots)

    def too_large(self, batch: int, devices: int) -> str:
        """What to say of a batch that does not fit."""
        gb = 1e9
        model = worker_bytes(self._profile, 0, updates=True) / gb
        sample = self._profile.activations / gb
        return (
            f"{batch} samples of {self._profile.name} do not fit into the memory of {devices} devices: "
            f"each device holds the model ({model:.1f} GB) and {sample:.2g} GB for each of its samples"
        )

    def bearer_on(self, configuration: str, devices: int) -> Bearer | Unknown:
        """What so many devices of a configuration set can bear together."""
        key = (configuration, devices)
        if key not in self._bearers:
            line = self._predictor.line(self._profile, configuration)
            memory = self._cluster.configurations[configuration].device_memory
            most = most_samples(self._profile, memory, updates=True)
            self._bearers[key] = line if isinstance(line, Unknown) else Bearer(line, devices, most)
        return self._bearers[key]

    def _bandwidth(self, link: LinkClass) -> float:
        """Bytes/s of a class of links; next to nothing where it has none, as pricing will say."""
        if link not in self._bandwidths:
            known = self._predictor.link(link)
            rate = known.bandwidth.mean if isinstance(known, LinkEstimate) else 1.0
            self._bandwidths[link] = rate
        return self._bandwidths[link]

    def card(self, configuration: str) -> float:
        """Bytes/s of the network card of a configuration set's nodes."""
        return self._bandwidth(LinkClass(Wire.NIC, configuration))

    def port(self, configuration: str) -> float:
        """Bytes/s of one process on a configuration set's nodes."""
        return self._bandwidth(LinkClass(Wire.HOST, configuration))

    def rack(self) -> float:
        """Bytes/s of a rack's uplink."""
        return self._bandwidth(LinkClass(Wire.RACK))

    def inside(self, configuration: str, devices: int) -> float:
        """The least seconds per byte of a ring over so many devices of one node."""
        key = (configuration, devices)
        if key not in self._rings:
            self._rings[key] = self._ring_inside(*key) if devices > 1 else 0.0
        return self._rings[key]

    def server_cards(self) -> dict[Rack, float]:
        """Bytes/s of the cards of all nodes with room for a server, by rack."""
        total: dict[Rack, float] = {}
        for node in self._cluster.nodes:
            if node.state is NodeState.UP and self._has_room(node, []):
                rack = (node.domain, node.rack)
                total[rack] = total.get(rack, 0.0) + self.card(node.configuration)
        return total

    def _rates(self, name: str) -> tuple[float, float]:
        """Bytes/s of a node's card, and of one process's port there."""
        configuration = self._cluster.node(name).configuration
        return self.card(configuration), self.port(configuration)

    def _ring_inside(self, configuration: str, devices: int) -> float:
        """As if the node were free and the devices the closest ones."""
        kind = self._cluster.configurations[configuration]
        table = choice_table(kind.layers, kind.devices)
        choice = table.pack(kind.all_devices, devices)
        host = Host(configuration, 0, 0, (Seat(Role.WORKER, 0, choice.bits if choice else 0),))
        stage = ring(ranks_of((host,)), (host,), self._predictor.wiring)
        return price([stage], lambda place: self._bandwidth(place[0])).per_byte

    def _on_node(self, node: Node, devices: int, first: int, *, whole: bool) -> list[Slot]:
        """Tasks on a node's closest free devices."""
        kind = self._cluster.configuration_of(node)
        choice = choice_table(kind.layers, kind.devices).pack(node.free, devices)
        bits = choice.bits if choice is not None else 0
        parts = [bits] if whole else _cut(bits, self._need.devices)
        return [
            Slot(Role.WORKER, first + i, node.name, part, self._needs(part.bit_count()))
            for i, part in enumerate(parts)
        ]

    def _needs(self, devices: int) -> Need:
        times = devices / max(1, self._need.devices)
        cores, memory = ceil(self._need.millicores * times), ceil(self._need.memory * times)
        return Need(devices, cores, memory)

    def _server_need(self, share: float) -> Need:
        if self._server is not None:
            return self._server.need
        return Need(0, SERVER_CORES, ceil(server_bytes(self._profile, share)))

    def _has_room(self, node: Node, workers: list[Slot]) -> bool:
        """Whether a node's cores suffice for its workers and one server."""
        cores = self._server.need.millicores if self._server else SERVER_CORES
        return node.millicores - sum(slot.need.millicores for slot in workers) >= cores

    def _server_order(self, node: Node, racks: set[str]) -> tuple[int, bool, float, str]:
        nic, _ = self._rates(node.name)
        return (self._cluster.configuration_of(node).devices, node.rack not in racks, -nic, node.name)

    def _made(
        self,
        crew: Crew,
        sync: Sync,
        *,
        owners: tuple[float, ...] = (),
        servers: tuple[Slot, ...] = (),
    ) -> Candidate:
        slots = (*crew.slots, *servers)
        counts: dict[tuple[Role, Need], int] = {}
        for slot in slots:
            counts[slot.role, slot.need] = counts.get((slot.role, slot.need), 0) + 1
        parts = tuple(Part(role, count, need) for (role, need), count in counts.items())
        return Candidate(Plan(parts, sync, crew.batch, owners), Placement(slots))


def edge(k: int, n: int, bandwidth: float) -> Edge:
    """An edge with k of n workers behind it, for the share of the parameters behind it."""
    return k / bandwidth, (n - 2 * k) / bandwidth


def _cut(bits: int, size: int) -> list[int]:
    """A bitmap cut into tasks of so many devices, from the lowest."""
    parts, held = [], 0
    while bits:
        low = bits & -bits
        bits ^= low
        held |= low
        if held.bit_count() == size:
            parts.append(held)
            held = 0
    return parts
