"""Refuse at submission what no state of the cluster could ever satisfy, and say what it could.

The job is held against the empty cluster with every node up: if its gang does not fit there, it never
will (users' complaint: volcano#1295, ray#27287: jobs that wait for ever).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from muster.core.options import device_types, options
from muster.model.cluster import Cluster
from muster.model.job import Job, RoleSpec
from muster.model.pool import PoolTree
from muster.model.reason import Change
from muster.model.topology import Level
from muster.perf.slowdown import reach, widest_within
from muster.place.board import Board
from muster.place.even import even
from muster.place.pack import pack
from muster.place.request import Request
from muster.planner.counts import plan_for


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the job can never start, and the nearest request that could."""

    why: str
    nearest: Change | None


def refuse(job: Job, cluster: Cluster, pools: PoolTree) -> Refusal | None:
    """None if some state of the cluster could run the job's gang."""
    why = _pool_fault(job, pools) or _type_fault(job, cluster)
    if why is not None:
        return Refusal(why, None)
    board = Board(cluster.emptied())
    fits = _fits(job, board, pools)
    if fits is None:
        return None
    nearest = next((c for c, other in _nearer(job, cluster) if not _fits(other, board, pools)), None)
    return Refusal(fits, nearest)


def _pool_fault(job: Job, pools: PoolTree) -> str | None:
    if job.pool not in pools.pools:
        return f"there is no pool {job.pool!r}; pools: {', '.join(pools.leaves())}"
    if pools.below[job.pool]:
        return f"pool {job.pool!r} takes no jobs, only its pools do: {', '.join(pools.below[job.pool])}"
    return None


def _type_fault(job: Job, cluster: Cluster) -> str | None:
    there = cluster.device_types()
    missing = [name for name in job.device_types if name not in there]
    if missing:
        return f"there are no devices of type {missing[0]!r}; types: {', '.join(there)}"
    return None


def _fits(job: Job, board: Board, pools: PoolTree) -> str | None:
    """None if the gang fits on the empty cluster inside its pool's bounds, else why not."""
    cluster = board.cluster
    plan = plan_for(job, job.workers.gang)
    whys = []
    for option in options(job, cluster):
        kinds = tuple(cluster.configurations[name] for name in option)
        widest = widest_within(job, plan.devices, reach(cluster, kinds, plan.devices))
        why = _quota_fault(job, pools, device_types(option, cluster), plan.devices)
        request = Request(plan, option, widest)
        if why is None and (pack(board, request) or even(board, request)):
            return None
        whys.append(why or _room_fault(job, request, board))
    return whys[0] if whys else "the cluster has no devices"


def _quota_fault(job: Job, pools: PoolTree, types: tuple[str, ...], devices: int) -> str | None:
    for device_type in types:
        for name in pools.ancestry(job.pool):
            quota = pools.pools[name].quota(device_type)
            if quota.limit is not None and devices > quota.limit:
                return (
                    f"its gang takes {devices} {device_type}, "
                    f"the limit of pool {name!r} is {quota.limit}"
                )
        reserved = pools.pools[job.pool].quota(device_type).reservation
        if not job.preemptible and devices > reserved:
            return (
                f"it is not preemptible and its gang takes {devices} {device_type}, "
                f"pool {job.pool!r} reserves {reserved}"
            )
    return None


def _room_fault(job: Job, request: Request, board: Board) -> str:
    devices = request.plan.devices
    there = board.free_devices(request.kinds)
    if devices > there:
        return f"its gang takes {devices} devices, the cluster has {there} of its types"
    within = "" if request.widest is Level.CLUSTER else f" within one {request.widest.word}"
    return f"no place holds its gang of {job.workers.gang} workers, {devices} devices{within}"


def _nearer(job: Job, cluster: Cluster) -> Iterator[tuple[Change, Job]]:
    """Requests near to this one: wider first, then preemptible, smaller needs, then fewer workers."""
    for level in Level:
        if level > job.locality.widest:
            yield (
                Change("locality", level.word),
                replace(job, locality=replace(job.locality, widest=level)),
            )
    if not job.preemptible:
        yield Change("preemptible", "true"), replace(job, preemptible=True)
    for word, roles in _leaner(job, cluster):
        yield word, replace(job, roles=roles)
    for gang in range(job.workers.gang - 1, 0, -1):
        yield Change("devices", str(gang)), replace(job, roles=_with_gang(job, gang))


def _leaner(job: Job, cluster: Cluster) -> Iterator[tuple[Change, tuple[RoleSpec, ...]]]:
    """Each task with no more cores, then memory, than the largest node has for every device."""
    kinds = cluster.configurations.values()
    cores = max(kind.millicores // max(1, kind.devices) for kind in kinds)
    memory = max(kind.memory // max(1, kind.devices) for kind in kinds)
    fewer = tuple(_capped(spec, cores, spec.need.memory) for spec in job.roles)
    less = tuple(_capped(spec, spec.need.millicores, memory) for spec in job.roles)
    if fewer != job.roles:
        yield Change("cores", f"{cores / 1000:g}"), fewer
    if less != job.roles:
        yield Change("memory", f"{memory // 10**9}GB"), less


def _capped(spec: RoleSpec, millicores: int, memory: int) -> RoleSpec:
    need = spec.need
    capped = replace(need, millicores=min(need.millicores, millicores), memory=min(need.memory, memory))
    return replace(spec, need=capped)


def _with_gang(job: Job, gang: int) -> tuple[RoleSpec, ...]:
    own = job.workers
    fewer = replace(own, gang=gang, least=min(own.least, gang), most=max(own.most, gang))
    return tuple(fewer if spec is own else spec for spec in job.roles)
