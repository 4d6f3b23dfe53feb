"""The devices that a policy can still give, by pool and type.

A pool may use its entitlement, and beyond it what no pool is entitled to; neither it nor a pool around
it may exceed its limit, nor a user what such a pool gives each. Some devices that a job could use
belong to no entitlement: a job that may use several types asks for one of them only, and the policy may
want it on another.

Jobs that cannot be changed now (changing already, or running and not preemptible) count with what they
hold or will hold, as do gangs that no type holds alone (`straddle`); the policy deals to all others,
`movable`. Two more sorts of running jobs stay as they are: those on draining nodes, whose devices
nobody else could use, and those that would start over after a stop, unless a waiting job that outranks
them needs their devices.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from muster.model.cluster import Node, draining
from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.pool import ROOT, Entitlements
from muster.model.view import JobState, Phase, View
from muster.planner.counts import plan_for
from muster.policy.market.protected import protected
from muster.policy.market.straddle import straddles

UNBOUNDED = 1 << 30
"""Workers of a job without devices: nothing here limits it."""


_Bound = tuple[tuple[str, str], tuple[str, str], int, int]
"""A pool and its parent, each with the device type; its entitlement and limit."""


class Room:
    """Devices left, by type: of the cluster and of each pool."""

    def __init__(self, view: View, entitlements: Entitlements) -> None:
        self._view = view
        self._entitled = entitlements
        self._left = Counter(dict(entitlements.capacity))
        self._used: Counter[tuple[str, str]] = Counter()
        self._fixed: Counter[tuple[str, str]] = Counter()
        """What each pool's own jobs that are not preemptible have of it."""
        self._spoken_for: dict[tuple[str, str], int] = {}
        """By pool or cluster: sum over the pools below of entitlement or use, whichever is more."""
        self._known: dict[tuple[str, str], tuple[_Bound, ...]] = {}
        self._types = tuple(t for t in view.cluster.device_types() if t in entitlements.capacity)
        self._capped = view.pools.capped()
        self._by_user: Counter[tuple[str, str]] = Counter()
        """Devices given, by pool that limits those of each user, and user."""
        self._had = _held_by_user(view, self._capped)
        """Devices held, likewise: a limit set below them takes none."""
        self._given: Counter[int] = Counter()
        """Workers given to jobs whose servers need devices too."""
        gone = draining(view.cluster)
        stays = protected(view)
        self.movable: list[JobState] = []
        for state in view.jobs.values():
            if gone and any(slot.node in gone for slot in state.held()):
                self._bar(state, gone)
            elif stays and state.number in stays:
                self._keep(state)
            elif self._is_free(state):
                self.movable.append(state)
            elif state.phase is not Phase.PREEMPTING:
                self._keep(state)

    def _is_free(self, state: JobState) -> bool:
        """Whether the policy decides what the job has."""
        job, phase = state.job, state.phase
        if phase is not Phase.RUNNING and phase is not Phase.WAITING:
            return False
        may = job.preemptible or state.placement is None
        return may and (job.same_generation or not straddles(job, self._entitled.capacity))

    def free(self, device_type: str) -> int:
        """Return the devices of the type not given yet."""
        return self._left[device_type]

    def types(self, job: Job) -> tuple[str, ...]:
        """Return the device types the job may use, in order of preference."""
        if not job.device_types:
            return self._types
        there = self._entitled.capacity
        return tuple(t for t in job.device_types if t in there)

    def most(self, job: Job, device_type: str, *, any_user: bool = False) -> int:
        """Return the workers that cluster and pools could still give the job on this type; `any_user`:
        if the pool's limit for each user did not bind its user."""
        each = job.workers.need.devices
        if not each:
            return UNBOUNDED
        devices = self._open(job, device_type)
        if self._capped and not any_user:
            devices = min(devices, self.left_to_user(job))
        if devices <= 0:
            return 0
        most = devices // each
        if _devices_beside(job):
            while most and self._devices(job, most) > devices:
                most -= 1
        return most

    def left_to_user(self, job: Job) -> int:
        """Return the devices that the pools around the job still leave to its user."""
        if not self._capped:
            return UNBOUNDED
        pools = self._view.pools.pools
        keys = [(pool, job.user) for pool in self._caps(job)]
        most = (max(pools[key[0]].devices_per_user or 0, self._had[key]) for key in keys)
        left = (each - self._by_user[key] for each, key in zip(most, keys, strict=True))
        return max(0, min(left, default=UNBOUNDED))

    def take(self, job: Job, device_type: str, workers: int) -> None:
        """Give the job workers; a negative number takes them back."""
        self._enter(job, device_type, self._devices(job, workers))
        if _devices_beside(job):
            self._given[job.number] += workers

    def take_for_all(self, job: Job, device_type: str, devices: int) -> None:
        """Give jobs of one pool, all of workers alone and within no limit for each user, devices: at
        once, since each of them is asked about in every cycle. `job`: one of them."""
        self._enter(job, device_type, devices)

    def _devices(self, job: Job, more: int) -> int:
        """Return the devices of these additional workers and the servers that go with them."""
        if not _devices_beside(job):
            return more * job.workers.need.devices
        had = self._given[job.number]
        before = plan_for(job, had).devices if had else 0
        return (plan_for(job, had + more).devices if had + more else 0) - before

    def _open(self, job: Job, device_type: str) -> int:
        """Return the devices that cluster and pools leave to the job."""
        devices = self._left[device_type]
        if not job.preemptible:
            pool = job.pool, device_type
            reserved = self._view.pools.pools[job.pool].quota(device_type).reservation
            entitled = max(reserved, self._entitled.of(*pool))  # as the ledger has it
            return min(devices, reserved - self._fixed[pool], entitled - self._used[pool])
        allowed = self._entitled.capacity.get(device_type, 0)
        for pool, around, entitled, limit in self._bounds(job.pool, device_type):
            used = self._used[pool]
            spare = allowed - self._spoken_for[around]
            allowed = entitled if entitled > used else used
            if spare > 0:
                allowed += spare
            if allowed > limit:
                allowed = limit
            if devices > allowed - used:
                devices = allowed - used
        return devices

    def limits_users(self, job: Job) -> bool:
        """Whether some pool around the job limits the devices of each user."""
        return bool(self._caps(job))

    def _caps(self, job: Job) -> Collection[str]:
        """Return the pools around the job that limit the devices of each user."""
        return self._capped.intersection(self._view.pools.ancestry(job.pool)) if self._capped else ()

    def _bounds(self, leaf: str, device_type: str) -> tuple[_Bound, ...]:
        """Return the bounds of a leaf, from wide to narrow, cached."""
        key = (leaf, device_type)
        if key not in self._known:
            pools, found = self._view.pools, []
            around = (ROOT, device_type)
            for name in reversed(tuple(pools.ancestry(leaf))):
                if around not in self._spoken_for:
                    below = ((each, device_type) for each in pools.below[around[0]])
                    self._spoken_for[around] = sum(self._claim(each) for each in below)
                limit = pools.pools[name].quota(device_type).limit
                entitled = self._entitled.of(name, device_type)
                pool = (name, device_type)
                found.append((pool, around, entitled, UNBOUNDED if limit is None else limit))
                around = pool
            self._known[key] = tuple(found)
        return self._known[key]

    def _claim(self, pool: tuple[str, str]) -> int:
        """Return a pool's entitlement, or its use if that is more."""
        return max(self._entitled.of(*pool), self._used[pool])

    def _keep(self, state: JobState) -> None:
        placement = state.target or state.placement
        if placement is not None:
            for device_type, devices in _by_type(self._view, placement).items():
                self._enter(state.job, device_type, devices)

    def _bar(self, state: JobState, gone: Mapping[str, Node]) -> None:
        """Count a job with tasks on draining nodes; what it gives back there is nobody's."""
        staying = state.target or state.placement
        if state.phase is Phase.PREEMPTING or staying is None:
            staying = Placement(())
        else:
            self._keep(state)
        lost = [s for s in state.held() if s.node in gone and s not in staying.slots]
        for device_type, devices in _by_type(self._view, Placement(tuple(lost))).items():
            self._left[device_type] -= devices

    def _enter(self, job: Job, device_type: str, devices: int) -> None:
        self._left[device_type] -= devices
        if not job.preemptible:
            self._fixed[job.pool, device_type] += devices
        for capped in self._caps(job) if self._capped else ():
            self._by_user[capped, job.user] += devices
        for pool, around, entitled, _ in self._bounds(job.pool, device_type):
            used = self._used[pool]
            self._used[pool] = used + devices
            if used > entitled or used + devices > entitled:
                self._spoken_for[around] += max(entitled, used + devices) - max(entitled, used)


def _held_by_user(view: View, capped: Collection[str]) -> Counter[tuple[str, str]]:
    """Return the devices that users hold or will hold, in the pools that limit them."""
    found: Counter[tuple[str, str]] = Counter()
    for state in view.jobs.values() if capped else ():
        placement = state.target or state.placement
        if placement is not None:
            for pool in set(capped).intersection(view.pools.ancestry(state.job.pool)):
                found[pool, state.job.user] += placement.devices
    return found


def _devices_beside(job: Job) -> bool:
    """Whether tasks other than workers need devices."""
    if len(job.roles) == 1:
        return False
    for spec in job.roles:  # noqa: SIM110, hot path: a generator is slower
        if spec.need.devices and spec.role is not Role.WORKER:
            return True
    return False


def holds(state: JobState) -> int:
    """Return the workers the job has, or will have after the change in progress."""
    placement = state.target or state.placement
    return placement.count(Role.WORKER) if placement else 0


def in_change(view: View, states: Iterable[JobState]) -> dict[int, tuple[str, int]]:
    """Return device type and workers of jobs that cannot be dealt to, less those being stopped."""
    staying = (state for state in states if state.phase is not Phase.PREEMPTING)
    return {state.number: (type_held(view, state) or "", holds(state)) for state in staying}


def type_held(view: View, state: JobState) -> str | None:
    """Return the device type of most devices the job holds."""
    placement, kinds = state.target or state.placement, view.cluster.configurations
    if placement is not None and len(kinds) == 1:  # most clusters
        (kind,) = kinds.values()
        return kind.device_type if placement.devices else None
    held = _by_type(view, placement) if placement else None
    return max(held, key=lambda each: held[each]) if held else None


def workers_by_type(view: View, state: JobState) -> dict[str, int]:
    """Return the workers of each device type that the job has, or will have after the change."""
    placement, found = state.target or state.placement, Counter[str]()
    for slot in placement.slots if placement else ():
        if slot.role is Role.WORKER and slot.bits:
            node = view.cluster.node(slot.node)
            found[view.cluster.configuration_of(node).device_type] += 1
    return dict(found)


def most_on_node(view: View, device_type: str) -> int:
    """Return the most devices of a type that a node has."""
    kinds = view.cluster.configurations.values()
    return max((kind.devices for kind in kinds if kind.device_type == device_type), default=1)


def is_scattered(view: View, placement: Placement, device_type: str) -> bool:
    """Whether devices of a type are on more nodes than they need."""
    nodes = {slot.node for slot in placement.slots if slot.bits}
    return (len(nodes) - 1) * most_on_node(view, device_type) >= placement.devices


def _by_type(view: View, placement: Placement) -> Counter[str]:
    found: Counter[str] = Counter()
    cluster = view.cluster
    for slot in placement.slots:
        if slot.bits:
            kind = cluster.configuration_of(cluster.node(slot.node))
            found[kind.device_type] += slot.bits.bit_count()
    return found
