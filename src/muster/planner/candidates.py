"""Candidate plans for one layout of workers (Dike's Generator, seed 000).

Gradients go round rings, to parameters sharded over the workers, or to dedicated servers beside the
workers or apart; tasks have one device each or all of a node's. Parts of the batch are balanced,
owners' parts water-filled. A candidate is complete: plan and placement, ready to be priced.
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
from muster.perf.estimate import Unknown
from muster.perf.memory import most_samples, server_bytes, worker_bytes
from muster.perf.predict import Predictor
from muster.planner.layout import Layout, Rack, nodes_of
from muster.planner.rates import Rates
from muster.split.batch import Bearer, shares
from muster.split.owners import Edge, Owners, edge, water_filled

SERVER_CORES = 2_000
"""Millicores of a server where the job states none."""


@dataclass(frozen=True, slots=True, order=True)
class Family:
    """Plans that synchronise alike, with alike tasks and places."""

    sync: Sync
    whole: bool = False
    """One task for all devices of a node."""
    apart: bool = False
    """Servers on other nodes than the workers'."""
    dealt: bool = False
    """Workers spread over the racks rather than in as few as possible."""

    @property
    def updates(self) -> bool:
        """Whether workers update parameters, and so keep the optimiser state."""
        return self.sync is not Sync.DEDICATED


@dataclass(frozen=True, slots=True)
class PlacedPlan:
    """A plan and its placement."""

    plan: Plan
    placement: Placement


@dataclass(frozen=True, slots=True)
class PlacedWorkers:
    """Placed workers with their parts of the batch, before the choice of synchronisation."""

    slots: tuple[Slot, ...]
    batch: tuple[int, ...]

    def by_node(self) -> dict[str, list[Slot]]:
        """Return the workers on each node."""
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
        self._bearers: dict[tuple[str, int, bool], Bearer | Unknown] = {}
        self.rates = Rates(predictor)

    def workers(self, layout: Layout, batch: int, family: Family) -> PlacedWorkers | None:
        """Return the workers of a family on a layout; None if they do not fit."""
        slots: list[Slot] = []
        bearers: list[Bearer] = []
        for node, devices in nodes_of(layout, dealt=family.dealt):
            here = self._on_node(node, devices, len(slots), whole=family.whole)
            bearer = self.bearer(node.configuration, devices // len(here), updates=family.updates)
            if isinstance(bearer, Unknown):
                return None
            slots += here
            bearers += [bearer] * len(here)
        parts = shares(bearers, batch)
        return None if parts is None else PlacedWorkers(tuple(slots), parts)

    def sharded(self, placed: PlacedWorkers) -> PlacedPlan:
        """Put parameters on the workers, in parts with which all finish together."""
        nodes = placed.by_node()
        n = len(placed.slots)
        held = self._filled(nodes, nodes, lambda k, port: (1 / port, (n - 2) / k / port))
        owners = tuple(held[slot.node] / len(nodes[slot.node]) for slot in placed.slots)
        return self.plan(placed, Sync.SHARDED, owners=owners)

    def dedicated(self, placed: PlacedWorkers, nodes: Sequence[Node], servers: int) -> PlacedPlan:
        """Put servers on these nodes in turn, with parts with which all finish together."""
        n = len(placed.slots)
        hosts = [nodes[i % len(nodes)] for i in range(servers)]
        tasks: dict[str, list[int]] = {}
        for i, host in enumerate(hosts):
            tasks.setdefault(host.name, []).append(i)
        held = self._filled(placed.by_node(), tasks, lambda k, port: (0.0, n / k / port))
        owners = tuple(held[host.name] / len(tasks[host.name]) for host in hosts)
        slots = tuple(
            Slot(Role.SERVER, i, host.name, 0, self._server_need(owners[i]))
            for i, host in enumerate(hosts)
        )
        return self.plan(placed, Sync.DEDICATED, owners=owners, servers=slots)

    def served_by(self, placed: PlacedWorkers, servers: Sequence[Slot]) -> PlacedPlan:
        """Put parameters on placed servers, in parts with which all finish together."""
        n = len(placed.slots)
        tasks: dict[str, list[Slot]] = {}
        for slot in servers:
            tasks.setdefault(slot.node, []).append(slot)
        held = self._filled(placed.by_node(), tasks, lambda k, port: (0.0, n / k / port))
        owners = tuple(held[slot.node] / len(tasks[slot.node]) for slot in servers)
        return self.plan(placed, Sync.DEDICATED, owners=owners, servers=tuple(servers))

    def server_nodes(self, placed: PlacedWorkers, *, apart: bool) -> list[Node]:
        """Return nodes for servers, the workers' own or others: without devices first, then by card.

        Racks in turn, so that no uplink has all the servers behind it.
        """
        workers = placed.by_node()
        in_rack: dict[tuple[Rack, str], int] = {}
        keyed = []
        for node in self._cluster.nodes:
            fits = node.state is NodeState.UP and self._has_room(node, workers.get(node.name, []))
            if fits and (node.name not in workers) == apart:
                kind, rack = node.configuration, (node.domain, node.rack)
                turn = in_rack[rack, kind] = in_rack.get((rack, kind), 0) + 1
                devices = self._cluster.configurations[kind].devices
                keyed.append(((devices, -self.rates.card(kind), turn, rack, node.name), node))
        return [node for _, node in sorted(keyed, key=lambda each: each[0])]

    def server_range(self, nodes: Sequence[Node]) -> tuple[int, int]:
        """Return the fewest and the most servers: the job's, else as many as fill every card."""
        if self._server is not None:
            return self._server.gang, self._server.most if nodes else 0
        kinds = [node.configuration for node in nodes]
        return 1, sum(max(1, round(self.rates.card(k) / self.rates.port(k))) for k in kinds)

    def enough_servers(self, placed: PlacedWorkers, nodes: Sequence[Node]) -> int:
        """Return the servers whose cards carry as much as the workers' busiest one."""
        wanted = len(placed.slots) / self._busiest_card(placed.by_node())
        slowest = min(self.rates.card(node.configuration) for node in nodes)
        return max(1, ceil(wanted / slowest - 1e-9))

    def server_cards(self) -> dict[Rack, float]:
        """Return bytes/s of the cards of all nodes with room for a server, by rack."""
        total: dict[Rack, float] = {}
        for node in self._cluster.nodes:
            if node.state is NodeState.UP and self._has_room(node, []):
                rack = (node.domain, node.rack)
                total[rack] = total.get(rack, 0.0) + self.rates.card(node.configuration)
        return total

    def bearer(self, configuration: str, devices: int, *, updates: bool) -> Bearer | Unknown:
        """Return what devices of a configuration set can compute together."""
        key = (configuration, devices, updates)
        if key not in self._bearers:
            line = self._predictor.line(self._profile, configuration)
            memory = self._cluster.configurations[configuration].device_memory
            most = most_samples(self._profile, memory, updates=updates)
            self._bearers[key] = line if isinstance(line, Unknown) else Bearer(line, devices, most)
        return self._bearers[key]

    def too_large(self, batch: int, devices: int) -> str:
        """Return the message for a batch that does not fit."""
        gb = 1e9
        model = worker_bytes(self._profile, 0, updates=True) / gb
        sample = self._profile.activations / gb
        place = "one device" if devices == 1 else f"{devices} devices"
        return (
            f"{batch} samples of {self._profile.name} do not fit into the memory of {place}: "
            f"each device holds the model ({model:.1f} GB) and {sample:.2g} GB for each of its samples"
        )

    def _filled(
        self,
        workers: Mapping[str, Sequence[Slot]],
        owners: Mapping[str, Sequence[object]],
        port_edge: Callable[[int, float], Edge],
    ) -> dict[str, float]:
        """Return the share of each node with owners, by its card, its owners' ports and its rack."""
        n = sum(len(slots) for slots in workers.values())
        racks: dict[Rack, list[str]] = {}
        behind: dict[Rack, int] = {}
        for name in dict.fromkeys((*workers, *owners)):
            node = self._cluster.node(name)
            rack = (node.domain, node.rack)
            behind[rack] = behind.get(rack, 0) + len(workers.get(name, ()))
            if name in owners:
                racks.setdefault(rack, []).append(name)

        def edges(name: str) -> list[Edge]:
            kind = self._cluster.node(name).configuration
            card = edge(len(workers.get(name, ())), n, self.rates.card(kind))
            return [card, port_edge(len(owners[name]), self.rates.port(kind))]

        uplinks = [[edge(behind[r], n, self.rates.uplink())] if len(behind) > 1 else [] for r in racks]
        groups = [
            Owners(uplink, [(edges(name), 1) for name in names])
            for uplink, names in zip(uplinks, racks.values(), strict=True)
        ]
        filled = water_filled(groups, self._busiest_card(workers))
        names = [name for each in racks.values() for name in each]
        return dict(zip(names, [share for each in filled for share in each], strict=True))

    def _busiest_card(self, workers: Mapping[str, Sequence[Slot]]) -> float:
        """Return the least s/byte in which the workers can send everything."""
        cards = {name: self.rates.card(self._cluster.node(name).configuration) for name in workers}
        return max(len(slots) / cards[name] for name, slots in workers.items())

    def _on_node(self, node: Node, devices: int, first: int, *, whole: bool) -> list[Slot]:
        """Put tasks on a node's closest free devices."""
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
        """Return whether a node has cores for its workers and one server."""
        cores = self._server.need.millicores if self._server else SERVER_CORES
        return node.millicores - sum(slot.need.millicores for slot in workers) >= cores

    def plan(
        self,
        placed: PlacedWorkers,
        sync: Sync,
        *,
        owners: tuple[float, ...] = (),
        servers: tuple[Slot, ...] = (),
    ) -> PlacedPlan:
        """Build a plan of these workers."""
        slots = (*placed.slots, *servers)
        counts: dict[tuple[Role, Need], int] = {}
        for slot in slots:
            counts[slot.role, slot.need] = counts.get((slot.role, slot.need), 0) + 1
        parts = tuple(Part(role, count, need) for (role, need), count in counts.items())
        return PlacedPlan(Plan(parts, sync, placed.batch, owners), Placement(slots))


def _cut(bits: int, size: int) -> list[int]:
    """Cut a bitmap into tasks of `size` devices, from the lowest."""
    parts, held = [], 0
    while bits:
        low = bits & -bits
        bits ^= low
        held |= low
        if held.bit_count() == size:
            parts.append(held)
            held = 0
    return parts
