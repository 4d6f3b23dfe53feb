"""What is there and what is wanted, per device type: the two inputs of entitlement."""

from collections import Counter
from collections.abc import Mapping

from muster.core.options import device_types, options
from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job
from muster.model.placement import Slot
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

    A running job asks for the type it runs on; a waiting one that allows several asks for the first of
    which enough is not yet asked for, else for its favourite.
    """
    wanted: Counter[tuple[str, str]] = Counter()
    asked: Counter[str] = Counter()
    types_of: dict[tuple[tuple[str, ...], bool], tuple[str, ...]] = {}
    for state in view.jobs.values():
        devices = plan_for(state.job, state.job.workers.most).devices
        if not devices:
            continue
        device_type = _holds(view, state)
        if device_type is None:
            key = (state.job.device_types, state.job.same_generation)
            if key not in types_of:
                types_of[key] = _allowed(state.job, view.cluster)
            device_type = _with_room(types_of[key], devices, asked, available)
        if device_type is not None:
            wanted[state.job.pool, device_type] += devices
            asked[device_type] += devices
    return dict(wanted)


def _holds(view: View, state: JobState) -> str | None:
    if state.placement is None:
        return None
    held = held_by_type(view.cluster, state.placement.slots[:1])
    return next(iter(held), None)


def _allowed(job: Job, cluster: Cluster) -> tuple[str, ...]:
    found = (t for option in options(job, cluster) for t in device_types(option, cluster))
    return tuple(dict.fromkeys(found))


def _with_room(
    types: tuple[str, ...], devices: int, asked: Counter[str], available: Mapping[str, int]
) -> str | None:
    for device_type in types:
        if asked[device_type] + devices <= available.get(device_type, 0):
            return device_type
    return types[0] if types else None
