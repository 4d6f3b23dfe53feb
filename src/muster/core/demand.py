"""What is there and what is wanted, per device type: the two inputs of entitlement."""

from collections import Counter
from collections.abc import Mapping

from muster.core.options import device_types, options
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
    """Devices of each type among these slots."""
    found: Counter[str] = Counter()
    for slot in slots:
        if slot.bits:
            kind = cluster.configurations[cluster.node(slot.node).configuration]
            found[kind.device_type] += slot.bits.bit_count()
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


def _ask_to_keep(view: View, state: JobState, devices: int, asked: "_Asked") -> None:
    assert state.placement is not None
    held = held_by_type(view.cluster, (state.target or state.placement).slots)
    if not held:
        return
    main = max(held, key=lambda each: held[each])
    held[main] += max(0, devices - held.total())
    for device_type, amount in held.items():
        asked.add(state.job, device_type, amount)


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
            found = (t for o in options(job, self._cluster) for t in device_types(o, self._cluster))
            self._allowed[key] = tuple(dict.fromkeys(found))
        return self._allowed[key]
