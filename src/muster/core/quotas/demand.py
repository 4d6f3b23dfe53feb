"""What is there and what is wanted, per device type: the two inputs of entitlement."""

from collections import Counter
from collections.abc import Mapping

from muster.core.cycle.options import device_types, options
from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job
from muster.model.placement import Slot
from muster.model.pool import PoolTree
from muster.model.view import JobState, View
from muster.planner.counts import plan_for


def capacity(cluster: Cluster) -> dict[str, int]:
    """Devices of each type in use or usable: a draining node counts with what runs on it."""
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
    for node, held in bits.items():
        found[cluster.configuration_of(cluster.node(node)).device_type] += held.bit_count()
    return found


def demands(view: View, available: Mapping[str, int]) -> dict[tuple[str, str], int]:
    """Devices that each leaf pool's jobs could use, by type.

    A job that runs asks for what it has, and for more of the same. One that waits and allows several
    types asks for the first that it could have: one that is not preemptible where its pool has
    reservation left, any other where enough is not yet asked for; else for its favourite.
    """
    asked = _Asked(view, available)
    for state in view.jobs.values():
        devices = plan_for(state.job, state.job.workers.most).devices
        if state.placement is not None:
            _ask_to_keep(view, state, devices, asked)
        elif devices:
            asked.add(state.job, asked.favourite(state.job), devices)
    return dict(asked.by_pool)


class Demand:
    """The same, kept up to date as jobs come, change and go.

    What a job asks depends on the others only if it waits and may choose its type: while there is such
    a job, everything is asked anew.
    """

    def __init__(self, cluster: Cluster, pools: PoolTree) -> None:
        self._cluster = cluster
        self._pools = pools
        self._asked: Counter[tuple[str, str]] = Counter()
        self._choosy = 0
        self._types: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}

    def enter(self, state: JobState, sign: int) -> None:
        """Enter a job, or strike it out with sign -1."""
        job = state.job
        devices = plan_for(job, job.workers.most).devices
        if state.placement is not None:
            for device_type, amount in _kept(self._cluster, state, devices).items():
                self._asked[job.pool, device_type] += sign * amount
        elif devices:
            types = self._allowed(job)
            if len(types) > 1:
                self._choosy += sign
            elif types:
                self._asked[job.pool, types[0]] += sign * devices

    def by_pool(self, view: View, available: Mapping[str, int]) -> Mapping[tuple[str, str], int]:
        """What `demands` says of the jobs entered, which are those of the view."""
        return demands(view, available) if self._choosy else self._asked

    def _allowed(self, job: Job) -> tuple[str, ...]:
        key = (job.device_types, job.same_generation)
        if key not in self._types:
            self._types[key] = _types_of(job, self._cluster)
        return self._types[key]


def _types_of(job: Job, cluster: Cluster) -> tuple[str, ...]:
    found = (t for option in options(job, cluster) for t in device_types(option, cluster))
    return tuple(dict.fromkeys(found))


def _ask_to_keep(view: View, state: JobState, devices: int, asked: "_Asked") -> None:
    for device_type, amount in _kept(view.cluster, state, devices).items():
        asked.add(state.job, device_type, amount)


def _kept(cluster: Cluster, state: JobState, devices: int) -> Counter[str]:
    """What a job that has devices asks for: those, and up to so many of the same."""
    assert state.placement is not None
    held = held_by_type(cluster, (state.target or state.placement).slots)
    if held:
        main = max(held, key=lambda each: held[each])
        held[main] += max(0, devices - held.total())
    return held


class _Asked:
    """What has been asked for so far."""

    def __init__(self, view: View, available: Mapping[str, int]) -> None:
        self._cluster = view.cluster
        self._pools: PoolTree = view.pools
        self._available = available
        self._allowed: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}
        self._by_type: Counter[str] = Counter()
        self._fixed: Counter[tuple[str, str]] = Counter()
        self.by_pool: Counter[tuple[str, str]] = Counter()

    def add(self, job: Job, device_type: str | None, devices: int) -> None:
        """Enter a wish; one for a type that is not there is none."""
        if device_type is not None:
            self.by_pool[job.pool, device_type] += devices
            self._by_type[device_type] += devices
            if not job.preemptible:
                self._fixed[job.pool, device_type] += devices

    def favourite(self, job: Job) -> str | None:
        """The type a waiting job asks for."""
        types = self._types(job)
        if len(types) < 2:
            return types[0] if types else None
        gang = plan_for(job, job.workers.gang).devices
        room = self._in_cluster if job.preemptible else self._in_reservation
        fitting = (t for t in types if gang <= room(job.pool, t))
        return next(fitting, types[0])

    def _in_cluster(self, _: str, device_type: str) -> int:
        return self._available.get(device_type, 0) - self._by_type[device_type]

    def _in_reservation(self, pool: str, device_type: str) -> int:
        reserved = self._pools.pools[pool].quota(device_type).reservation
        there = min(reserved, self._available.get(device_type, 0))
        return there - self._fixed[pool, device_type]

    def _types(self, job: Job) -> tuple[str, ...]:
        key = (job.device_types, job.same_generation)
        if key not in self._allowed:
            self._allowed[key] = _types_of(job, self._cluster)
        return self._allowed[key]
