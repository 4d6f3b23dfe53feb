"""Records of nodes, pools and tasks for the API."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from muster.core.quotas.demand import held_by_type
from muster.daemon.gang.state import GangState, Sight
from muster.daemon.gang.transitions import Goal
from muster.executors.health import unhealthy
from muster.model.cluster import Node
from muster.model.job import Job
from muster.model.pool import ROOT, Entitlements, Quota
from muster.model.task import TaskEnded, TaskId, TaskOrdered
from muster.model.topology import each_bit
from muster.model.view import Phase, View
from muster.perf.history.hops import NodeLink
from muster.perf.wires import LinkClass, Wire, prior
from muster.store.batch import Journalled
from muster.wire.api.records import (
    NodeHealth,
    NodeRecord,
    NodeTaskRecord,
    PoolRecord,
    QuotaRecord,
    TaskRecord,
    UplinkRecord,
)

JobName = Callable[[Job], str | None]
"""What the reader of a list may know a job as; None: nothing."""


Holdings = Mapping[str, Mapping[int, int]]
"""Of each node with jobs: their numbers, and the bits of the devices that each has there."""


def holdings(view: View) -> Holdings:
    """Return what jobs hold, by node: once for a list of all nodes."""
    found: defaultdict[str, Counter[int]] = defaultdict(Counter)
    for number, state in view.jobs.items():
        for slot in state.held():
            found[slot.node][number] |= slot.bits
    return found


def node_record(
    view: View,
    node: Node,
    held_there: Holdings,
    name_of: JobName,
    agents: Mapping[str, NodeHealth] | None = None,
    links: Mapping[str, NodeLink] | None = None,
) -> NodeRecord:
    """A node, the jobs on it, what its agent says and its link has shown; of jobs that the reader may
    not see, only how many."""
    kind = view.cluster.configuration_of(node)
    held = 0
    jobs: list[str] = []
    hidden = 0
    for number, bits in held_there.get(node.name, {}).items():
        name = name_of(view.jobs[number].job)
        jobs += [name] if name else []
        hidden += not name
        held |= bits
    marks = "".join("x" if held >> i & 1 else "." for i in range(kind.devices))
    return NodeRecord(
        node.name,
        node.state.value,
        kind.device_type,
        kind.devices,
        node.free.bit_count(),
        kind.millicores / 1000,
        kind.memory,
        (*sorted(jobs), *_others(hidden)),
        marks,
        node.until,
        why=node.why,
        since=node.since,
        rack=node.rack,
        domain=node.domain,
        configuration=node.configuration,
        uplink=_uplink(view, node, (links or {}).get(node.name)),
        **_offered(node, agents or {}),
    )


def _uplink(view: View, node: Node, known: NodeLink | None) -> UplinkRecord:
    """A node's link, as claimed and as learnt."""
    if known is None:
        return UplinkRecord(prior(view.cluster, LinkClass(Wire.NIC, node.configuration)).bandwidth)
    return UplinkRecord(known.rated, known.rate, known.reports, known.at, node.name in view.uplinks)


def _offered(node: Node, agents: Mapping[str, NodeHealth]) -> dict[str, Any]:
    """Return the fields that only a node with an agent has."""
    offer, health = node.offer, agents.get(node.name)
    if offer is None:
        return {}
    return {
        "connected": health is not None,
        "health": health,
        "trouble": "" if health is None else unhealthy(health),
        "engine": offer.engine,
        "address": offer.address,
        "labels": dict(offer.labels),
        "interface": offer.interface,
        "ports": offer.ports,
        "user": offer.user,
        "virtual": offer.virtual,
    }


def node_tasks(
    view: View, gangs: Mapping[int, GangState], node: str, name_of: JobName
) -> tuple[NodeTaskRecord, ...]:
    """The tasks on a node, of jobs that the reader may see."""
    return tuple(
        NodeTaskRecord(number, name, each.task.name, tuple(each_bit(each.slot.bits)))
        for number, gang in sorted(gangs.items())
        if number in view.jobs and (name := name_of(view.jobs[number].job))
        for each in gang.tasks
        if each.slot.node == node
    )


def _others(hidden: int) -> tuple[str, ...]:
    if not hidden:
        return ()
    return ("another user's job" if hidden == 1 else f"{hidden} jobs of other users",)


def pool_records(
    view: View, entitled: Entitlements, shared: Collection[str], policy: str = ""
) -> list[PoolRecord]:
    """All pools, parents first; `policy`: the cluster's."""
    used: Counter[tuple[str, str]] = Counter()
    pending: Counter[str] = Counter()
    running: Counter[str] = Counter()
    for state in view.jobs.values():
        counts = pending if state.phase is Phase.WAITING else running
        for pool in view.pools.ancestry(state.job.pool):
            counts[pool] += 1
            for device_type, devices in held_by_type(view.cluster, state.held()).items():
                used[pool, device_type] += devices
    names = [ROOT]
    for name in names:  # grows while it is walked
        names += view.pools.below[name]
    found = []
    for name in names[1:]:
        own, leaf = view.pools.pools[name], not view.pools.below[name]
        types = dict.fromkeys((*view.cluster.device_types(), *own.quotas))
        quotas = tuple(
            _quota_record(each, own.quota(each), entitled.of(name, each), used[name, each])
            for each in types
        )
        counted = pending[name], running[name]
        found.append(
            PoolRecord(
                name,
                own.parent,
                quotas,
                *counted,
                leaf,
                name in shared,
                own.allow,
                own.max_priority,
                own.devices_per_user,
                view.pools.policy_of(name, policy),
                own.policy,
                own.budget,
                own_aim=own.aim,
            )
        )
    return found


def _quota_record(device_type: str, quota: Quota, entitled: int, used: int) -> QuotaRecord:
    return QuotaRecord(
        device_type,
        quota.reservation,
        quota.share,
        quota.limit,
        entitled,
        used,
        quota.reservation_part,
        quota.limit_part,
    )


def task_records(
    gang: GangState | None, sight: Sight, entries: Sequence[Journalled]
) -> tuple[TaskRecord, ...]:
    """The tasks of a job: live ones, and ended ones from the facts given."""
    ordered = {e.fact.task: e.fact for e in entries if isinstance(e.fact, TaskOrdered)}
    ended = {e.fact.exited.task: e.fact for e in entries if isinstance(e.fact, TaskEnded)}
    found = {task: _ended(fact, ended.get(task)) for task, fact in ordered.items()}
    stopping = gang is not None and gang.goal is not Goal.RUN
    for each in gang.tasks if gang is not None else ():
        running = each.task in sight.running
        status = "stopping" if stopping else "running" if running else "ordered"
        found[each.task] = _record(each.task, each.slot.node, each.slot.bits, status)
    return tuple(found[task] for task in sorted(found, key=_order))


def _order(task: TaskId) -> tuple[int, str, int, int]:
    return (task.generation, task.role.value, task.index, task.attempt)


def _record(task: TaskId, node: str, bits: int, status: str) -> TaskRecord:
    return TaskRecord(
        task.name,
        task.role.value,
        task.index,
        task.generation,
        task.attempt,
        node,
        tuple(each_bit(bits)),
        status,
        f"{task.generation}/{task.name}",
    )


def _ended(fact: TaskOrdered, end: TaskEnded | None) -> TaskRecord:
    record = _record(fact.task, fact.slot.node, fact.slot.bits, "ended")
    if end is None:
        return record
    exited = end.exited
    return replace(record, code=exited.code, signal=exited.signal, error=exited.error)
