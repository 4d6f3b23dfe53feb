"""Capacity and demand by device type: the two inputs of entitlement."""

from collections import Counter
from collections.abc import Mapping

from muster.core.cycle.options import device_types, options
from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job
from muster.model.placement import Slot
from muster.model.view import JobState, View
from muster.planner.counts import devices_for


def capacity(cluster: Cluster) -> dict[str, int]:
    """Return the devices of each type in use or usable: a draining node counts with what it runs."""
    found: Counter[str] = Counter(dict.fromkeys(cluster.device_types(), 0))
    for node in cluster.nodes:
        kind = cluster.configuration_of(node)
        if kind.devices and node.state is not NodeState.LOST:
            out = node.free.bit_count() if node.state is NodeState.DRAINING else 0
            found[kind.device_type] += kind.devices - out
    return dict(found)


def held_by_type(cluster: Cluster, slots: tuple[Slot, ...]) -> Counter[str]:
    """Devices of each type among these slots; one that two slots share counts once."""
    bits: dict[str, int] = {}
    for slot in slots:
        if slot.bits:
            bits[slot.node] = bits.get(slot.node, 0) | slot.bits
    found: Counter[str] = Counter()
    nodes, index, kinds = cluster.nodes, cluster.index, cluster.configurations
    for node, held in bits.items():  # hot path: of thousands of placements in a cycle
        kind = kinds[nodes[index[node]].configuration].device_type
        found[kind] = found.get(kind, 0) + held.bit_count()
    return found


def now_and_then(cluster: Cluster, state: JobState) -> tuple[Counter[str], Counter[str]]:
    """Return the devices that a job has, and those once its change is done, by type."""
    placed = state.placement
    now = held_by_type(cluster, placed.slots) if placed is not None else Counter[str]()
    return now, held_by_type(cluster, state.target.slots) if state.target else now


def demands(
    view: View, available: Mapping[str, int], promised: Mapping[int, str] | None = None
) -> dict[tuple[str, str], int]:
    """Return the devices that each leaf pool's jobs could use, by type.

    A running job asks for what it has, and for more of the same. A waiting job that allows several
    types asks for the first it could have: where its pool has reservation left if it is not
    preemptible, else where not everything is asked for yet; failing that, its first choice. One that
    devices are `promised` to asks for their type: others gave way for it.
    """
    asked = _Asked(view, available, promised or {})
    for state in view.jobs.values():
        devices = devices_for(state.job, state.job.workers.most)
        if state.placement is not None:
            for device_type, amount in _kept(view.cluster, state, devices).items():
                asked.add(state.job, device_type, amount)
        elif devices:
            asked.add(state.job, asked.choice(state.job), devices)
    return dict(asked.by_pool)


class Demand:
    """The same, updated as jobs come, change and go.

    What a job asks for depends on others only if it waits and may choose its type: while there is such
    a job, everything is recomputed.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._types = _AllowedTypes(cluster)
        self._asked: Counter[tuple[str, str]] = Counter()
        self._choosy = 0

    def enter(self, state: JobState, sign: int, held: Mapping[str, int]) -> None:
        """Add a job, or remove it with sign -1; `held`: the devices that it has once its change is
        done, by type."""
        job = state.job
        devices = devices_for(job, job.workers.most)
        if state.placement is not None:
            for device_type, amount in _grown(held, devices).items():
                self._asked[job.pool, device_type] += sign * amount
        elif devices:
            types = self._types.of(job)
            if len(types) > 1:
                self._choosy += sign
            elif types:
                self._asked[job.pool, types[0]] += sign * devices

    def by_pool(
        self, view: View, available: Mapping[str, int], promised: Mapping[int, str] | None = None
    ) -> Mapping[tuple[str, str], int]:
        """Return what `demands` returns for the jobs added, which are those of the view."""
        return demands(view, available, promised) if self._choosy else self._asked


class _AllowedTypes:
    """Device types by what jobs allow, computed once."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}

    def of(self, job: Job) -> tuple[str, ...]:
        key = (job.device_types, job.same_generation)
        if key not in self._known:
            each = (device_types(option, self._cluster) for option in options(job, self._cluster))
            self._known[key] = tuple(dict.fromkeys(t for types in each for t in types))
        return self._known[key]


def _kept(cluster: Cluster, state: JobState, devices: int) -> Mapping[str, int]:
    """Return what a job with devices asks for: those, and more of the same up to this number."""
    assert state.placement is not None
    return _grown(held_by_type(cluster, (state.target or state.placement).slots), devices)


def _grown(held: Mapping[str, int], devices: int) -> Mapping[str, int]:
    """Return what a job that holds these asks for."""
    more = devices - sum(held.values())
    if not held or more <= 0:
        return held
    main = max(held, key=lambda each: held[each])
    return {**held, main: held[main] + more}


class _Asked:
    """Demand so far."""

    def __init__(self, view: View, available: Mapping[str, int], promised: Mapping[int, str]) -> None:
        self._pools = view.pools
        self._available = available
        self._promised = promised
        self._types = _AllowedTypes(view.cluster)
        self._by_type: Counter[str] = Counter()
        self._fixed: Counter[tuple[str, str]] = Counter()
        self.by_pool: Counter[tuple[str, str]] = Counter()

    def add(self, job: Job, device_type: str | None, devices: int) -> None:
        """Add devices; none if the type does not exist."""
        if device_type is not None:
            self.by_pool[job.pool, device_type] += devices
            self._by_type[device_type] += devices
            if not job.preemptible:
                self._fixed[job.pool, device_type] += devices

    def choice(self, job: Job) -> str | None:
        """Return the type a waiting job asks for."""
        types = self._types.of(job)
        if len(types) < 2:
            return types[0] if types else None
        if (promised := self._promised.get(job.number)) in types:
            return promised
        gang = devices_for(job, job.workers.gang)
        room = self._in_cluster if job.preemptible else self._in_reservation
        fitting = (t for t in types if gang <= room(job.pool, t))
        return next(fitting, types[0])

    def _in_cluster(self, _: str, device_type: str) -> int:
        return self._available.get(device_type, 0) - self._by_type[device_type]

    def _in_reservation(self, pool: str, device_type: str) -> int:
        reserved = self._pools.pools[pool].quota(device_type).reservation
        there = min(reserved, self._available.get(device_type, 0))
        return there - self._fixed[pool, device_type]
