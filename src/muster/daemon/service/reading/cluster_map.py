"""The map of the cluster: which job each device works for, or is withheld for."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

from muster.executors.health import unhealthy
from muster.model.cluster import Node, fragmentation
from muster.model.decision import Promise
from muster.model.job import Job
from muster.model.placement import Slot
from muster.model.topology import each_bit
from muster.model.view import JobState, View
from muster.wire.api.map_records import FREE, HIDDEN, ClusterMap, MappedJob, MappedNode
from muster.wire.api.records import NodeHealth

JobSeen = Callable[[Job], bool]
Cells = dict[str, list[int]]
"""Of each node with any: the number that belongs to each of its devices."""


def cluster_map(
    view: View, promises: Iterable[Promise], agents: Mapping[str, NodeHealth], seen: JobSeen
) -> ClusterMap:
    """Return the map as a reader may see it."""
    live = {number: state for number, state in view.jobs.items() if state.placement is not None}
    held = _cells(view, ((state, state.held()) for state in live.values()), seen)
    withheld = [each for each in promises if each.job in view.jobs]
    promised = _cells(view, ((view.jobs[each.job], each.placement.slots) for each in withheld), seen)
    nodes = tuple(_node(view, each, held, promised, agents) for each in view.cluster.nodes)
    jobs = tuple(_job(state) for state in live.values() if seen(state.job))
    free, scattered = view.cluster.free_devices()
    return ClusterMap(nodes, jobs, free, fragmentation(free, scattered))


def _cells(view: View, jobs: Iterable[tuple[JobState, Iterable[Slot]]], seen: JobSeen) -> Cells:
    cluster = view.cluster
    found: Cells = defaultdict(list)
    for state, slots in jobs:
        number = state.number if seen(state.job) else HIDDEN
        for slot in slots:
            if slot.node in cluster.index:
                if slot.node not in found:
                    kind = cluster.configuration_of(cluster.node(slot.node))
                    found[slot.node] = [FREE] * kind.devices
                for device in each_bit(slot.bits):
                    found[slot.node][device] = number
    return found


def _node(
    view: View, node: Node, held: Cells, promised: Cells, agents: Mapping[str, NodeHealth]
) -> MappedNode:
    kind = view.cluster.configuration_of(node)
    health = agents.get(node.name)
    return MappedNode(
        node.name,
        node.state.value,
        kind.device_type,
        node.rack,
        node.domain,
        node.why or ("" if health is None else unhealthy(health)),
        tuple(held.get(node.name) or (FREE,) * kind.devices),
        tuple(promised.get(node.name, ())),
    )


def _job(state: JobState) -> MappedJob:
    job = state.job
    devices = sum(slot.bits.bit_count() for slot in state.held())
    return MappedJob(state.number, job.name, job.user, job.pool, state.phase.value, devices)
