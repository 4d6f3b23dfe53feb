"""Models, nodes and plans with round numbers, for tests of the performance models.

Bandwidths in bytes/s and latencies in s of the nodes of `tests.builders`:

    lane 25e9, 1e-6    switch's uplink 16e9, 2e-6    socket's uplink 10e9, 3e-6    port 3e9, 20e-6
    card min(12.5e9, rack's port 10e9) = 10e9, 5e-6
    between nodes of a rack +5e-6, of a domain +10e-6 (uplink 5e9), else +20e-6 (uplink 2e9)
"""

from collections.abc import Sequence
from dataclasses import replace

from muster.model.cluster import Cluster
from muster.model.job import Need, Role
from muster.model.placement import Placement, Slot
from muster.model.plan import Overlap, Plan, Sync
from muster.model.profile import LayerType, ModelProfile, Tensor
from muster.model.topology import ConfigurationSet
from muster.perf.shape import Shape, site_of
from muster.perf.traffic import Load, SyncStage
from muster.perf.wires import Wire
from tests.builders import GB, SERVER_TASK, node_set, slot

MB = 10**6
RATE = 1e12
"""Operations/s, and bytes/s of memory, of the devices of `device_set`."""
LAUNCH = 30e-6
"""Seconds that a tensor costs a step whatever the batch."""
CHUNK = 262_144
"""Bytes in which owners take and give parameters."""


def device_set(
    name: str = "a", *, devices: int = 8, sockets: int = 2, switches: int = 4, speed: float = 1.0
) -> ConfigurationSet:
    """A node whose devices take 1 ms / speed for a sample of `model`."""
    kind = node_set(
        name, device_type=f"MADE-{name}", devices=devices, sockets=sockets, switches=switches
    )
    return replace(kind, device_rate=RATE * speed, device_bandwidth=RATE)


def model(
    *sizes: int,
    ready: Sequence[float] = (),
    per_sample: float = 1e-3,
    batch: int = 10,
    activations: int = 0,
    name: str = "m",
) -> ModelProfile:
    """A dense model of tensors of these bytes, ready evenly over the backward pass unless told.

    Three passes of its operations at 0.65 of the rate take `per_sample` seconds.
    """
    times = ready or [(i + 1) / len(sizes) for i in range(len(sizes))]
    tensors = tuple(
        Tensor(f"t{i}", size, at) for i, (size, at) in enumerate(zip(sizes, times, strict=True))
    )
    operations = per_sample * RATE * 0.65 / 3
    layers = ((LayerType.DENSE, 1.0),)
    return ModelProfile(name, tensors, operations, activations, layers, 1000, 100, batch)


def plan(
    sync: Sync = Sync.RING,
    overlap: Overlap = Overlap.FULL,
    *,
    batch: tuple[int, ...] = (),
    owners: tuple[float, ...] = (),
) -> Plan:
    """How to synchronise; what tasks there are, the placement says."""
    return Plan((), sync, batch, owners, overlap)


def server(node: str, index: int = 0, memory: int = GB) -> Slot:
    """A parameter server's place."""
    return slot(node, 0, index, role=Role.SERVER, need=replace(SERVER_TASK, memory=memory))


def cpu_worker(node: str, index: int = 0, *, cores: int = 4, memory: int = GB) -> Slot:
    """The place of a worker without devices."""
    return slot(node, 0, index, need=Need(0, 1000 * cores, memory))


def shape_of(cluster: Cluster, placed: Placement) -> Shape:
    """The shape of a placement."""
    return site_of(cluster, placed).shape


def on(stage: SyncStage, *wires: Wire) -> dict[tuple[int, int], Load]:
    """The loads on edges of these kinds, by the number of their host and which one there."""
    return {(i, part): load for (link, i, part), load in stage.loads.items() if link.wire in wires}


def last_on(stage: SyncStage, *wires: Wire) -> dict[tuple[int, int], tuple[float, int]]:
    """What is sent before the last chunks, and these, on edges of these kinds."""
    return {(i, part): last for (link, i, part), last in stage.last.items() if link.wire in wires}


def wires_of(stage: SyncStage) -> set[Wire]:
    """The kinds of edges that carry anything."""
    return {place[0].wire for place in stage.loads}
