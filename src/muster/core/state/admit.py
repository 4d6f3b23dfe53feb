"""Reject at submission what could never run on this cluster, and name the nearest request that could.

The search that starts jobs is run on the empty cluster, every node up and everything lent to the pool:
a gang that does not fit there never will (users' complaint: volcano#1295, ray#27287: jobs that wait for
ever). Where nodes may join, only what no node could change is refused; the rest waits (`waiting.join`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches

from muster.core.cycle.cycle_state import CycleState, Rules
from muster.core.cycle.standing import Standing
from muster.core.cycle.start_gangs import find
from muster.core.quotas.demand import capacity
from muster.core.why.variants import smallest_change
from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.model.pool import EVERY_TYPE, ROOT, Entitlements, PoolTree
from muster.model.reason import Code, RequestChange
from muster.model.topology import MAX_DEVICES, Level
from muster.model.view import View
from muster.place.adaptive import Mood
from muster.planner.counts import plan_for


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the job can never start, and the nearest request that could."""

    why: str
    nearest: RequestChange | None


def refuse(job: Job, cluster: Cluster, pools: PoolTree) -> Refusal | None:
    """Return None if some state of the cluster could run the job's gang."""
    cycle = _empty(cluster, pools)
    why = _pool_fault(job, pools)
    if why is not None:
        return Refusal(why, _other_pool(cycle, job))
    if cluster.open:
        why = _fixed_fault(job, cluster, pools)
    else:
        why = _type_fault(job, cluster) or _fault(cycle, job)
    if why is None:
        return None

    def starts(other: Job, workers: int) -> bool:
        if cluster.open:
            return _fixed_fault(other, cluster, pools, workers) is None
        return find(cycle, other, workers)[0] is not None

    gang = job.workers.gang
    return Refusal(why, smallest_change(job, gang, cluster.device_types(), starts, lean=True))


def _empty(cluster: Cluster, pools: PoolTree) -> CycleState:
    """Return a state in which everything is free and every pool entitled to it."""
    view = View(0, cluster.emptied(), pools, {})
    whole = capacity(view.cluster)
    entitled = Entitlements({(pool, t): n for pool in pools.pools for t, n in whole.items()})
    return CycleState(Standing(view), entitled, (), 0.0, Mood(), Rules())


def _pool_fault(job: Job, pools: PoolTree) -> str | None:
    if job.pool not in pools.pools:
        return f"no such pool: {job.pool!r}; pools: {', '.join(pools.leaves())}"
    if pools.below[job.pool]:
        return f"pool {job.pool!r} takes no jobs; its pools do: {', '.join(pools.below[job.pool])}"
    return None


def _other_pool(cycle: CycleState, job: Job) -> RequestChange | None:
    """Return a pool that could take the job: below the one it names, else of a similar name."""
    for name in _near_pools(job.pool, cycle.view.pools):
        if find(cycle, replace(job, pool=name), job.workers.gang)[0] is not None:
            return RequestChange("pool", name)
    return None


def _near_pools(name: str, pools: PoolTree) -> Iterator[str]:
    leaves = pools.leaves()
    if name in pools.pools or name == ROOT:
        yield from (leaf for leaf in leaves if name in (*pools.ancestry(leaf), ROOT))
    else:
        yield from get_close_matches(name, leaves, n=len(leaves), cutoff=0.0)


def _type_fault(job: Job, cluster: Cluster) -> str | None:
    there = cluster.device_types()
    if job.device_types and not set(job.device_types) & set(there):
        return f"no devices of type {job.device_types[0]!r}; types: {', '.join(there)}"
    return None


def _fixed_fault(job: Job, cluster: Cluster, pools: PoolTree, workers: int | None = None) -> str | None:
    """Return what stops the gang whatever joins: the size of any node, or a fixed quota."""
    gang = plan_for(job, workers or job.workers.gang).devices
    one_node = job.locality.widest <= Level.NODE
    most = gang if one_node else max(spec.need.devices for spec in job.roles)
    if most > MAX_DEVICES:
        what = "its gang" if one_node else "a task"
        return f"{what} takes {most} devices of one node, which has at most {MAX_DEVICES}"
    named = (*cluster.device_types(), *pools.pools[job.pool].quotas, EVERY_TYPE)
    types = job.device_types or tuple(dict.fromkeys(named))
    faults = [_fixed_bound(job, pools, each, gang) for each in types]
    return faults[0] if all(faults) else None


def _fixed_bound(job: Job, pools: PoolTree, device_type: str, gang: int) -> str | None:
    what = _counted(gang, "device") if device_type == EVERY_TYPE else f"{gang} {device_type}"
    takes = f"its gang takes {what}"
    for name in pools.ancestry(job.pool):
        pool = pools.pools[name]
        quota = pool.quota(device_type)
        if quota.limit_part is None and quota.limit is not None and gang > quota.limit:
            return f"{takes}, the limit of pool {name!r} is {quota.limit}"
        if pool.devices_per_user is not None and gang > pool.devices_per_user:
            return f"{takes}, pool {name!r} gives each user {pool.devices_per_user}"
    own = pools.pools[job.pool].quota(device_type)
    if not job.preemptible and own.reservation_part is None and gang > own.reservation:
        return f"it is not preemptible and {takes}, pool {job.pool!r} reserves {own.reservation}"
    return None


def _fault(cycle: CycleState, job: Job) -> str | None:
    """Return why the gang does not fit on the empty cluster within its pool's bounds, or None."""
    workers = job.workers.gang
    placement, obstacle = find(cycle, job, workers)
    if placement is not None:
        return None
    if not cycle.options.of(job):
        return "the cluster has no devices"
    if obstacle is Code.WAITING_DEVICES:
        return _room_fault(cycle, job, workers)
    return _quota_fault(cycle, job, workers, obstacle)


def _quota_fault(cycle: CycleState, job: Job, workers: int, obstacle: Code) -> str:
    gang = cycle.options.request(job, workers, cycle.options.of(job)[0]).plan.devices
    amounts = [dict.fromkeys(cycle.options.types(option), gang) for option in cycle.options.pure(job)]
    found = [bound for each in amounts if (bound := cycle.quotas.broken(job, each))]
    bound = next((bound for bound in found if bound.code is obstacle), found[0])
    takes = f"its gang takes {gang} {bound.device_type}"
    if bound.code is Code.WAITING_USER_LIMIT:
        most = f"pool {bound.pool!r} gives each user {bound.most}"
        return f"its gang takes {_counted(gang, 'device')}, {most}"
    if bound.code is Code.WAITING_LIMIT:
        return f"{takes}, the limit of pool {bound.pool!r} is {bound.most}"
    return f"it is not preemptible and {takes}, pool {bound.pool!r} reserves {bound.most}"


def _room_fault(cycle: CycleState, job: Job, workers: int) -> str:
    request = cycle.options.request(job, workers, cycle.options.of(job)[0])
    devices = request.plan.devices
    there = cycle.board.free_devices(request.kinds)
    if devices > there:
        return f"its gang takes {_counted(devices, 'device')}, the cluster has {there} of its types"
    where = "on the nodes" if request.widest is Level.CLUSTER else f"within one {request.widest.word}"
    gang = f"{_counted(workers, 'worker')} ({_counted(devices, 'device')})"
    return f"its gang of {gang} does not fit {where}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
