"""What there is to deal out: devices that pools and cluster may still give, as a policy gives them.

A pool may have its entitlement, and never above its limit, nor may any pool around it. Jobs that
cannot be changed now (in the middle of a change, or not preemptible and running) have been entered with
what they hold or come to hold; all others, `movable`, are the policy's to deal to.
"""

from collections import Counter

from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.pool import Entitlements
from muster.model.view import JobState, Phase, View

_FREE_TO_CHANGE = (Phase.WAITING, Phase.RUNNING)
UNBOUNDED = 1 << 30
"""Workers of a job that takes no devices: nothing here stops it."""


class Room:
    """Devices left, by type: of the cluster and of each pool."""

    def __init__(self, view: View, entitlements: Entitlements) -> None:
        self._view = view
        self._entitled = entitlements
        self._left = Counter(dict(entitlements.capacity))
        self._used: Counter[tuple[str, str]] = Counter()
        self._chains: dict[str, tuple[str, ...]] = {}
        self.movable: list[JobState] = []
        for state in view.jobs.values():
            if state.phase in _FREE_TO_CHANGE and (state.job.preemptible or state.placement is None):
                self.movable.append(state)
            elif state.phase is not Phase.PREEMPTING:
                self._keep(state)

    def free(self, device_type: str) -> int:
        """Devices of the type that nobody has been given yet."""
        return self._left[device_type]

    def types(self, job: Job) -> tuple[str, ...]:
        """The device types the job may use, in the order of its preference."""
        there = self._entitled.capacity
        return tuple(t for t in job.device_types or self._view.cluster.device_types() if t in there)

    def most(self, job: Job, device_type: str) -> int:
        """Workers that cluster and pools could still give the job on devices of this type."""
        each = job.workers.need.devices
        if not each:
            return UNBOUNDED
        devices = self._left[device_type]
        for pool in self._chain(job.pool):
            devices = min(devices, self._bound(job, pool, device_type) - self._used[pool, device_type])
        return max(0, devices // each)

    def take(self, job: Job, device_type: str, workers: int) -> None:
        """Give the job so many workers; a negative number takes them back."""
        self._enter(job, device_type, workers * job.workers.need.devices)

    def _bound(self, job: Job, pool: str, device_type: str) -> int:
        quota = self._view.pools.pools[pool].quota(device_type)
        if not job.preemptible:
            return quota.reservation if pool == job.pool else UNBOUNDED
        entitled = self._entitled.of(pool, device_type)
        return entitled if quota.limit is None else min(entitled, quota.limit)

    def _keep(self, state: JobState) -> None:
        placement = state.target or state.placement
        if placement is not None:
            for device_type, devices in _by_type(self._view, placement).items():
                self._enter(state.job, device_type, devices)

    def _enter(self, job: Job, device_type: str, devices: int) -> None:
        self._left[device_type] -= devices
        for pool in self._chain(job.pool):
            self._used[pool, device_type] += devices

    def _chain(self, pool: str) -> tuple[str, ...]:
        if pool not in self._chains:
            self._chains[pool] = tuple(self._view.pools.ancestry(pool))
        return self._chains[pool]


def holds(state: JobState) -> int:
    """Workers the job has now, or will have once what is under way is done."""
    placement = state.target or state.placement
    return placement.count(Role.WORKER) if placement else 0


def type_held(view: View, state: JobState) -> str | None:
    """The device type of most of the devices the job holds."""
    placement = state.target or state.placement
    held = _by_type(view, placement) if placement else None
    return max(held, key=lambda each: held[each]) if held else None


def _by_type(view: View, placement: Placement) -> Counter[str]:
    found: Counter[str] = Counter()
    cluster = view.cluster
    for slot in placement.slots:
        if slot.bits:
            kind = cluster.configuration_of(cluster.node(slot.node))
            found[kind.device_type] += slot.bits.bit_count()
    return found
