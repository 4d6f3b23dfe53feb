"""Running jobs that must not be stopped, since a stop would cost all their work.

A job that cannot continue from a checkpoint starts over after a stop. Only waiting jobs that outrank it
may take its devices: those of higher priority, and those within their pool's reservation if its own
pool uses more than it has reserved. Even then it is the last choice: it stays while what is free, and
what jobs of its pool that keep their work hold, is enough for all that outrank it. Of several, the one
that has run for the shortest time goes first.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.cluster import NodeState
from muster.model.job import Role
from muster.model.view import JobState, Phase, View
from muster.planner.counts import plan_for


def protected(view: View) -> set[int]:
    """Return the running jobs that must not be stopped now."""
    frail = [s for s in view.jobs.values() if _is_frail(s)]
    if not frail:
        return set()
    scene = _Scene(view)
    frail.sort(key=lambda state: (state.job.priority, -(state.started or 0.0), state.number))
    return {state.number for state in frail if not scene.gives_up(state)}


def _is_frail(state: JobState) -> bool:
    """Whether a stop would cost its work; one whose user wants another size is dealt to like any."""
    if state.phase is not Phase.RUNNING or state.keeps_work or state.placement is None:
        return False
    spec = state.job.workers
    return spec.gang <= state.placement.count(Role.WORKER) <= spec.most


@dataclass(slots=True)
class _Claim:
    """Waiting jobs of one pool, priority and choice of device types."""

    pool: str
    priority: int
    types: tuple[str, ...]
    least: int
    """Devices of the smallest gang."""
    devices: int = 0


class _Scene:
    """What waiting jobs want, and what there is for them."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._claims = list(_claims(view))
        self._there: Counter[str] = Counter()
        """Free devices by type, and those of jobs given up so far."""
        for node in view.cluster.nodes:
            if node.state is NodeState.UP and node.free:
                self._there[view.cluster.configuration_of(node).device_type] += node.free.bit_count()
        self._used: Counter[tuple[str, str]] = Counter()
        self._sturdy: Counter[tuple[str, str, int]] = Counter()
        """Devices of jobs that keep their work, by pool, type and priority."""
        for state in view.jobs.values():
            for device_type, devices in _held(view, state).items():
                self._used[state.job.pool, device_type] += devices
                if state.phase is Phase.RUNNING and state.job.preemptible and state.keeps_work:
                    self._sturdy[state.job.pool, device_type, state.job.priority] += devices

    def gives_up(self, state: JobState) -> bool:
        """Whether those that outrank the job need its devices."""
        held = _held(self._view, state)
        needed = any(
            self._wanted(state, each) > self._there[each] + self._instead(state, each) for each in held
        )
        if needed:
            self._there += held
        return needed

    def _wanted(self, state: JobState, device_type: str) -> int:
        """Return the devices of the type that waiting jobs may take from this one."""
        return sum(
            self._may_take(claim, state, device_type)
            for claim in self._claims
            if not claim.types or device_type in claim.types
        )

    def _may_take(self, claim: _Claim, state: JobState, device_type: str) -> int:
        if claim.priority > state.job.priority:
            return claim.devices
        if claim.pool == state.job.pool or self._unused(state.job.pool, device_type) >= 0:
            return 0
        left = self._unused(claim.pool, device_type)
        return min(left, claim.devices) if claim.least <= left else 0

    def _unused(self, pool: str, device_type: str) -> int:
        """Return what is left of a pool's reservation; below 0: it uses more."""
        reserved = self._view.pools.pools[pool].quota(device_type).reservation
        return reserved - self._used[pool, device_type]

    def _instead(self, state: JobState, device_type: str) -> int:
        """Return the devices of no more important jobs of its pool that keep their work."""
        return sum(
            devices
            for (pool, kind, priority), devices in self._sturdy.items()
            if (pool, kind) == (state.job.pool, device_type) and priority <= state.job.priority
        )


def _claims(view: View) -> Iterator[_Claim]:
    """Yield what waits, in groups that outrank the same jobs."""
    found: dict[tuple[str, int, tuple[str, ...]], _Claim] = {}
    for state in view.jobs.values():
        if state.phase is Phase.WAITING:
            job = state.job
            gang = plan_for(job, job.workers.gang).devices
            key = (job.pool, job.priority, job.device_types)
            claim = found.setdefault(key, _Claim(*key, least=gang))
            claim.least, claim.devices = min(claim.least, gang), claim.devices + gang
    yield from found.values()


def _held(view: View, state: JobState) -> Counter[str]:
    """Return the devices a job has, or will have after the change in progress, by type."""
    placement = state.target or state.placement
    found: Counter[str] = Counter()
    for slot in placement.slots if placement else ():
        if slot.bits:
            kind = view.cluster.configuration_of(view.cluster.node(slot.node))
            found[kind.device_type] += slot.bits.bit_count()
    return found
