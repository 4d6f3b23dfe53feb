"""Plans of a job, all of them, and the least step that any could take: for `perf_plans`.

The enumeration is plain and knows nothing of the planner's bounds. What it leaves out without replaying
it, it leaves out by proof: no plan is done before its slowest worker has computed, nor before the bytes
that must cross some edge have crossed it, the first of them when the first worker has them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory

from muster.core.cycle.cycle import Memory, decide
from muster.files.cluster.cluster_file import load_cluster
from muster.files.profile.profile_file import shipped_profile
from muster.model.choice import choice_table
from muster.model.cluster import Cluster, Node
from muster.model.job import Job, Need, Role, RoleSpec
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Part, Plan, Sync
from muster.model.pool import single_pool
from muster.model.profile import ModelProfile
from muster.model.view import JobState, Phase, View
from muster.perf.costs import price, trips
from muster.perf.estimate import Unknown
from muster.perf.memory import most_samples, server_bytes
from muster.perf.overlap import FORWARD, pieces
from muster.perf.predict import Predictor
from muster.perf.shape import Shape, site_of
from muster.perf.traffic import Place
from muster.planner.candidates import SERVER_CORES, PlacedWorkers, Workshop
from muster.planner.layout import Layout, kinds_of, layouts, nodes_of
from muster.planner.placed import in_force
from muster.policy.published.fifo import Fifo
from muster.split.batch import Bearer, shares
from support.assign import optimus, shares_of

ROOT = Path(__file__).parents[2]
WORKER = Need(devices=1, millicores=2_000, memory=4 * 10**9)
BATCHES = 8
"""The batch of a step, in usual batches of one device."""

MIXED = """
name: mixed-30
network: {rack: {bandwidth: 25Gbit/s}, domain: {bandwidth: 100Gbit/s}}
configurations:
  cpu-10g: {cores: 16, memory: 128GB}
  cpu-25g: {cores: 32, memory: 256GB, nic: {bandwidth: 25Gbit/s}}
  a100x4:
    {device: A100, generation: ampere, devices: 4, device_memory: 80GB, sockets: 2, cores: 32,
     memory: 512GB, nic: {bandwidth: 25Gbit/s}, nvlink: {group: 4}}
  h200x8:
    {device: H200, generation: hopper, devices: 8, device_memory: 141GB, sockets: 2, switches: 4,
     cores: 96, memory: 2TB, nic: {bandwidth: 25Gbit/s}, nvlink: {group: 8}}
nodes:
  slow[01-06]: {configuration: cpu-10g, rack: "r[1-3]"}
  fast[01-08]: {configuration: cpu-25g, rack: "r[1-3]"}
  a[01-12]: {configuration: a100x4, rack: "r[1-3]"}
  h[1-4]: {configuration: h200x8, rack: r4}
"""
"""Two generations and unequal cards: for the model that does not fit the other cluster's devices."""


EIGHT_WORKERS = """
name: eight-workers
network: {rack: {bandwidth: 25Gbit/s}}
configurations:
  slow: {cores: 16, memory: 256GB, nic: {bandwidth: 10Gbit/s}}
  fast: {cores: 16, memory: 256GB, nic: {bandwidth: 25Gbit/s}}
  one: {device: H200, devices: 1, device_memory: 141GB, cores: 16, memory: 256GB,
        nic: {bandwidth: 25Gbit/s}}
nodes:
"""
"""To compare rules for who holds which tensor: servers' cards are equal or not."""


@dataclass(frozen=True, slots=True)
class Case:
    """A job to plan, on a cluster whose devices have the memory for its model."""

    job: Job
    profile: ModelProfile
    cluster: Cluster
    configurations: tuple[str, ...]
    devices: int


def case(model: str, *, held_out: bool = False) -> Case:
    """The model on 30 mixed nodes; `held_out`: on those that the planner was not built with."""
    profile = shipped_profile(model)
    cluster = mixed() if held_out or model == "llama-7b" else dike()
    spec = RoleSpec(Role.WORKER, WORKER, 1, 1, 1_000)
    job = Job(model, roles=(spec,), model=profile, batch=BATCHES * profile.batch)
    sets = tuple(name for name, kind in cluster.configurations.items() if kind.devices)
    return Case(job, profile, cluster, sets, sum(node.free.bit_count() for node in cluster.nodes))


def dike() -> Cluster:
    """Dike's 30 instances, as far as the paper tells."""
    return load_cluster(ROOT / "examples/clusters/dike-30.yaml").cluster


def mixed() -> Cluster:
    """30 nodes of four kinds."""
    return _cluster(MIXED)


def _cluster(text: str) -> Cluster:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "cluster.yaml"
        path.write_text(text)
        return load_cluster(path).cluster


@dataclass(frozen=True, slots=True)
class Found:
    """A complete plan, and the seconds that it takes at the least."""

    plan: Plan
    placement: Placement
    least: float


class Enumeration:
    """Every plan of a job that could take less than some seconds."""

    def __init__(
        self,
        of: Case,
        below: float,
        *,
        counts: Sequence[int] | None = None,
        whole_nodes: bool = False,
    ) -> None:
        """`counts`: of servers only these; `whole_nodes`: only all devices of near nodes."""
        self._case = of
        self._below = below
        self._counts = counts
        self._whole_nodes = whole_nodes
        self._predictor = Predictor(of.cluster)
        self._workshop = Workshop(self._predictor, of.job, of.profile)
        self._pieces = pieces(of.profile)
        self._seen: set[tuple[object, ...]] = set()
        self.looked_at = 0

    def plans(self) -> Iterator[Found]:
        """All layouts, ways to synchronise, server counts and parts of the parameters."""
        kinds = kinds_of(self._case.cluster, self._case.configurations)
        for layout in layouts(kinds, 1, self._case.devices):
            if self._whole_nodes and any(g.devices < g.kind.free for g in layout.groups):
                continue
            for chosen in (nodes_of(layout), *([] if self._whole_nodes else [_dealt(layout)])):
                for whole in (False, True):
                    for plan, placement in self._on(chosen, whole=whole):
                        self.looked_at += 1
                        found = self._found(plan, placement)
                        if found is not None and found.least < self._below:
                            yield found

    def _on(self, chosen: list[tuple[Node, int]], *, whole: bool) -> Iterator[tuple[Plan, Placement]]:
        """Plans on these nodes and devices, in tasks of one device or of all of a node's."""
        placed = self._workers(chosen, whole=whole, updates=True)
        served = self._workers(chosen, whole=whole, updates=False)
        if placed is not None:
            yield from self._among_workers(placed, whole=whole)
        if served is not None and len(served.slots) > 1:
            for apart in (False, True):
                nodes = self._workshop.server_nodes(served, apart=apart)
                for order in (nodes, _over_racks(nodes)):
                    yield from self._served(served, order, apart=apart)

    def _among_workers(self, placed: PlacedWorkers, *, whole: bool) -> Iterator[tuple[Plan, Placement]]:
        if not whole:
            yield made(placed, Sync.RING)
            if len(placed.by_node()) > 1:
                yield made(placed, Sync.HIERARCHICAL)
        if len(placed.slots) > 1:
            yield made(placed, Sync.SHARDED)
            yield made(placed, Sync.SHARDED, self._workshop.sharded(placed).plan.owners)

    def _served(
        self, placed: PlacedWorkers, nodes: Sequence[Node], *, apart: bool
    ) -> Iterator[tuple[Plan, Placement]]:
        sent = self._over_cards(placed) if apart else self._between_nodes(placed)
        if not nodes or sent >= self._below:
            return
        for count in range(1, self._workshop.server_range(nodes)[1] + 1):
            if self._counts is not None and count not in self._counts:
                continue
            hosts = [nodes[i % len(nodes)] for i in range(count)]
            if apart and self._into_servers(placed, hosts) >= self._below:
                continue
            filled = self._workshop.dedicated(placed, nodes, count).plan.owners
            dealt = shares_of(optimus(self._case.profile.tensors, count))
            cards = [self._workshop.rates.card(host.configuration) for host in hosts]
            by_card = tuple(card / sum(cards) for card in cards)
            for owners in ((1 / count,) * count, filled, dealt, by_card):
                yield made(
                    placed, Sync.DEDICATED, owners, servers_on(hosts, owners, self._case.profile)
                )

    def _workers(
        self, chosen: list[tuple[Node, int]], *, whole: bool, updates: bool
    ) -> PlacedWorkers | None:
        """Workers with balanced parts; None if impossible or if computing alone takes too long."""
        slots: list[Slot] = []
        bearers: list[Bearer] = []
        for node, devices in chosen:
            line = self._predictor.line(self._case.profile, node.configuration)
            kind = self._case.cluster.configuration_of(node)
            most = most_samples(self._case.profile, kind.device_memory, updates=updates)
            if isinstance(line, Unknown) or most < 1:
                return None
            here = workers_on(self._case.cluster, node, devices, len(slots), whole=whole)
            slots += here
            bearers += [Bearer(line, devices // len(here), most)] * len(here)
        parts = shares(bearers, self._case.job.batch or 0)
        if parts is None or (whole and max(bearer.devices for bearer in bearers) == 1):
            return None
        ends = [b.line.seconds(ceil(p / b.devices)) for b, p in zip(bearers, parts, strict=True)]
        return PlacedWorkers(tuple(slots), parts) if max(ends) < self._below else None

    def _over_cards(self, placed: PlacedWorkers) -> float:
        """Seconds in which the workers' gradients leave their nodes at the least."""
        size = self._case.profile.gradients
        return max(
            size * len(slots) / self._workshop.rates.card(self._case.cluster.node(name).configuration)
            for name, slots in placed.by_node().items()
        )

    def _into_servers(self, placed: PlacedWorkers, hosts: Sequence[Node]) -> float:
        """Seconds in which these nodes take everybody's gradients at the least."""
        cards = {node.name: self._workshop.rates.card(node.configuration) for node in hosts}
        return self._case.profile.gradients * len(placed.slots) / sum(cards.values())

    def _between_nodes(self, placed: PlacedWorkers) -> float:
        """The same where tasks on the workers' own nodes own the parameters.

        Of n workers, k on a node that owns the share O: k (1-O) + (n-k) O leaves it for each byte, over
        all nodes at least 2 (n - k), k being the most on one node, and all cards carry that together.
        """
        nodes = placed.by_node()
        kinds = (self._case.cluster.node(name).configuration for name in nodes)
        cards = sum(self._workshop.rates.card(kind) for kind in kinds)
        others = len(placed.slots) - max(len(slots) for slots in nodes.values())
        return self._case.profile.gradients * 2 * others / cards

    def _found(self, plan: Plan, placement: Placement) -> Found | None:
        """A plan that was not seen yet on an alike placement, with the least it can take."""
        shape = site_of(self._case.cluster, placement).shape
        key = (plan.sync, plan.batch, tuple(round(share, 6) for share in plan.owners), shape)
        if key in self._seen:
            return None
        self._seen.add(key)
        return Found(plan, placement, self._least(plan, shape))

    def _least(self, plan: Plan, shape: Shape) -> float:
        """What a step takes if only its busiest edge counts, from when the first bytes can cross it.

        Rings and pulls wait for the slowest worker, pushes for the first that is ready.
        """
        times = self._computing(plan, shape)
        rings = plan.sync in (Sync.RING, Sync.HIERARCHICAL)
        least = max(self._moved(plan, shape, max(times) if rings else min(times)), *times)
        if rings or least >= self._below:
            return least
        return max(least, self._moved(plan, shape, max(times), pulls=True))

    def _computing(self, plan: Plan, shape: Shape) -> list[float]:
        """Seconds of each worker."""
        found = []
        for host in shape:
            line = self._predictor.line(self._case.profile, host.configuration)
            if not isinstance(line, Unknown):
                workers = (seat for seat in host.seats if seat.role is Role.WORKER)
                parts = (ceil(plan.batch[s.task] / max(1, s.bits.bit_count())) for s in workers)
                found += [line.seconds(part) for part in parts]
        return found

    def _moved(self, plan: Plan, shape: Shape, computing: float, *, pulls: bool = False) -> float:
        """When the busiest edge is done with everything, or with the pulls alone."""
        how = replace(plan, overlap=Overlap.BARRIER) if pulls else plan
        route = trips(how, shape, self._predictor.wiring)
        stages = route.back if pulls else route.out
        busiest = max((price([s], self._bandwidth).per_byte for s in stages), default=0.0)
        return FORWARD * computing + self._pieces.done((1 - FORWARD) * computing, busiest, 0.0)

    def _bandwidth(self, place: Place) -> float:
        known = self._predictor.link(place[0])
        return 1.0 if isinstance(known, Unknown) else known.bandwidth.mean


def workers_on(cluster: Cluster, node: Node, devices: int, first: int, *, whole: bool) -> list[Slot]:
    """Workers on the closest free devices of a node."""
    kind = cluster.configuration_of(node)
    choice = choice_table(kind.layers, kind.devices).pack(node.free, devices)
    bits = choice.bits if choice is not None else 0
    parts = [bits] if whole else [1 << i for i in range(kind.devices) if bits >> i & 1]
    return [
        Slot(Role.WORKER, first + i, node.name, part, replace(WORKER, devices=part.bit_count()))
        for i, part in enumerate(parts)
    ]


def made(
    placed: PlacedWorkers, sync: Sync, owners: tuple[float, ...] = (), servers: tuple[Slot, ...] = ()
) -> tuple[Plan, Placement]:
    """A plan and its placement."""
    slots = (*placed.slots, *servers)
    parts = tuple(Part(slot.role, 1, slot.need) for slot in slots)
    return Plan(parts, sync, placed.batch, owners), Placement(slots)


def servers_on(
    hosts: Sequence[Node], owners: Sequence[float], profile: ModelProfile
) -> tuple[Slot, ...]:
    """One server on each of these nodes, with the memory for its part of the parameters."""
    return tuple(
        Slot(Role.SERVER, i, host.name, 0, Need(0, SERVER_CORES, ceil(server_bytes(profile, share))))
        for i, (host, share) in enumerate(zip(hosts, owners, strict=True))
    )


def _dealt(layout: Layout) -> list[tuple[Node, int]]:
    """Nodes for a layout, each group's dealt over its racks."""
    return [
        (node, group.devices)
        for group in layout.groups
        for node in _over_racks(list(chain(*group.kind.racks.values())))[: group.nodes]
    ]


def _over_racks(nodes: Sequence[Node]) -> list[Node]:
    """The same nodes, taken from each rack in turn."""
    racks: dict[tuple[str, str], list[Node]] = {}
    for node in nodes:
        racks.setdefault((node.domain, node.rack), []).append(node)
    return [node for turn in zip_longest(*racks.values()) for node in turn if node is not None]


def by_hand(of: Case, how: str) -> tuple[Plan, Placement]:
    """What a person would do: a worker on every device, the batch and the parameters split evenly,
    one server for four workers, `beside` them or `apart` on nodes without devices; or one `ring`."""
    nodes = [node for node in of.cluster.nodes if node.configuration in of.configurations]
    slots: list[Slot] = []
    for node in nodes:
        slots += workers_on(of.cluster, node, node.free.bit_count(), len(slots), whole=False)
    each, more = divmod(of.job.batch or 0, len(slots))
    placed = PlacedWorkers(tuple(slots), tuple(each + (i < more) for i in range(len(slots))))
    if how == "ring":
        return made(placed, Sync.RING)
    others = [node for node in of.cluster.nodes if node.configuration not in of.configurations]
    hosts, count = others if how == "apart" else nodes, ceil(len(slots) / 4)
    owners = (1 / count,) * count
    taken = [hosts[i % len(hosts)] for i in range(count)]
    return made(placed, Sync.DEDICATED, owners, servers_on(taken, owners, of.profile))


def by_cycle(of: Case, workers: int, each: int) -> tuple[Plan, Placement, float] | None:
    """What the cycle decides for workers with `each` devices, and servers if they help; with the s of a
    step that it predicts. None: the job does not start, or nothing is decided."""
    need = replace(WORKER, devices=each)
    worker = RoleSpec(Role.WORKER, need, workers, workers, workers)
    server = RoleSpec(Role.SERVER, Need(0, SERVER_CORES), 0, 0, len(of.cluster.nodes))
    job = replace(of.job, roles=(worker, server), same_generation=False)
    pools = single_pool(of.cluster.devices_by_type())
    view = View(0, of.cluster, pools, {job.number: JobState(job, Phase.WAITING, 0.0)})
    decisions = decide(Fifo(), view, 0.0, Memory()).decisions
    for decision in decisions:
        if decision.placement is not None and decision.plan is not None:
            plan, placement = in_force(decision.plan, job.batch, decision.placement)
            return plan, placement, decision.plan.step
    return None


def eight_workers(servers: int, *, unequal: bool) -> Cluster:
    """Return nodes for servers, half of them with slower cards if unequal, then eight for workers."""
    slow = servers // 2 if unequal else 0
    kinds = ["slow"] * slow + ["fast"] * (servers - slow) + ["one"] * 8
    lines = (f"  n{i:02}: {{configuration: {kind}}}\n" for i, kind in enumerate(kinds))
    return _cluster(EIGHT_WORKERS + "".join(lines))


def sixty_four() -> Cluster:
    """Eight nodes of eight devices."""
    cluster = load_cluster(ROOT / "examples/clusters/one-type-64x8.yaml").cluster
    return replace(cluster, nodes=cluster.nodes[:8])


def on_64(cluster: Cluster, profile: ModelProfile) -> Iterator[tuple[Plan, Placement]]:
    """A plan of each kind for all devices of a cluster; one server on each node."""
    slots: list[Slot] = []
    for node in cluster.nodes:
        slots += workers_on(cluster, node, node.free.bit_count(), len(slots), whole=False)
    placed = PlacedWorkers(tuple(slots), (profile.batch,) * len(slots))
    owners = (1 / len(cluster.nodes),) * len(cluster.nodes)
    for sync in (Sync.RING, Sync.HIERARCHICAL, Sync.SHARDED):
        yield made(placed, sync)
    yield made(placed, Sync.DEDICATED, owners, servers_on(cluster.nodes, owners, profile))
