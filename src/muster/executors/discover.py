"""This machine as a cluster: its GPUs, or virtual devices on its cores."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from muster.executors.gpus import Gpus, MixedError, find_gpus
from muster.files.cluster.hardware import VIRTUAL, described
from muster.files.errors import InputError, shown
from muster.files.source.tree import DEFAULT_LINKS
from muster.model.cluster import Cluster, Node
from muster.model.offer import NodeOffer
from muster.model.topology import DEFAULT_HOST, MAX_DEVICES, ConfigurationSet, Level

MAX_NODES = 1000
"""Most virtual nodes: more is a typing error."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Nodes, sockets per node, devices per socket."""

    nodes: int
    sockets: int
    devices: int


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine has: thousandths of a core, bytes of memory."""

    millicores: int
    memory: int


def discover(devices: int | None = None, topology: str | None = None) -> Cluster:
    """Return the cluster of this machine; InputError if it cannot be as asked.

    `devices`: virtual devices on one node; `topology`: a grid of them, as text. Without either, the
    GPUs, or a virtual device for each core if there are none.
    """
    machine, grid = this_machine(), grid_of(devices, topology)
    if grid is not None:
        return virtual_cluster(grid, machine)
    try:
        gpus = find_gpus()
    except MixedError as problem:
        raise InputError(
            f"this machine has several types of devices ({problem}); describe it in a cluster file"
        ) from None
    if gpus is not None:
        return gpu_cluster(gpus, machine)
    cores = max(1, machine.millicores // 1000)
    return virtual_cluster(Grid(1, 1, min(cores, MAX_DEVICES)), machine)


def grid_of(devices: int | None, topology: str | None) -> Grid | None:
    """Return the virtual devices that are asked for, None if none are; InputError if impossible."""
    if topology is not None:
        grid = parse_topology(topology)
        if devices not in (None, grid.nodes * grid.sockets * grid.devices):
            raise InputError(f"topology {topology} does not have {devices} devices; give one of them")
    elif devices is not None:
        if devices < 1:
            raise InputError(f"{devices} devices: there must be at least 1")
        grid = Grid(1, 1, devices)
    else:
        return None
    _refuse_too_large(grid)
    return grid


def _refuse_too_large(grid: Grid) -> None:
    each = grid.sockets * grid.devices
    if each > MAX_DEVICES:
        total = grid.nodes * each
        raise InputError(
            f"a node has at most {MAX_DEVICES} devices, not {each}; spread them over more nodes, "
            f"for example {-(-total // MAX_DEVICES)}x{MAX_DEVICES}"
        )
    if grid.nodes > MAX_NODES:
        raise InputError(f"{grid.nodes} virtual nodes are too many; the maximum is {MAX_NODES}")


def parse_topology(text: str) -> Grid:
    """Parse "8" (devices), "2x4" (nodes x devices) or "2x2x4" (nodes x sockets x devices)."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) > 3 or not all(part.strip().isdecimal() for part in parts):
        raise InputError(
            f"{shown(text)} is not a topology; write 8 (devices), 2x4 (nodes x devices) "
            "or 2x2x4 (nodes x sockets x devices)"
        )
    numbers = [int(part) for part in parts]
    if 0 in numbers:
        raise InputError(f"topology {text} has no devices; every number must be at least 1")
    nodes = numbers[0] if len(numbers) > 1 else 1
    return Grid(nodes, numbers[1] if len(numbers) == 3 else 1, numbers[-1])


def virtual_cluster(grid: Grid, machine: Machine) -> Cluster:
    """Make nodes n0, n1, ... that share this machine."""
    _refuse_too_large(grid)
    millicores, memory = machine.millicores // grid.nodes, machine.memory // grid.nodes
    each = grid.sockets * grid.devices
    offer = NodeOffer(
        "n0",
        millicores,
        memory,
        devices=each,
        device_type=VIRTUAL,
        sockets=grid.sockets,
        virtual=True,
    )
    kind = replace(described(VIRTUAL, offer), nic=DEFAULT_HOST)
    return _cluster(kind, grid.nodes, virtual=True)


def gpu_cluster(gpus: Gpus, machine: Machine) -> Cluster:
    """Make one node, n0, with the GPUs of this machine."""
    if gpus.count > MAX_DEVICES:
        raise InputError(
            f"a node has at most {MAX_DEVICES} devices, and this machine has {gpus.count} GPUs; "
            "describe some of them in a cluster file"
        )
    offer = NodeOffer(
        "n0",
        machine.millicores,
        machine.memory,
        devices=gpus.count,
        device_type=gpus.device_type,
        device_memory=gpus.memory,
        sockets=len(gpus.sockets),
        switches=gpus.switches,
        nvlink=gpus.nvlink or 0,
        nvlink_rate=gpus.nvlink_rate,
    )
    return _cluster(described(gpus.device_type, offer), 1)


def this_machine() -> Machine:
    """Return the cores and memory that this process may use."""
    pinned = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if pinned else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(1000 * cores, min(memory, _memory_limit() or memory))


def _memory_limit() -> int | None:
    """The memory limit of the container, if any."""
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() else None


def _cluster(kind: ConfigurationSet, nodes: int, virtual: bool = False) -> Cluster:
    links = {level: DEFAULT_LINKS[level] for level in (Level.RACK, Level.DOMAIN, Level.CLUSTER)}
    return Cluster(
        name="local",
        configurations={kind.name: kind},
        nodes=tuple(
            Node(f"n{i}", kind.name, "r0", "d0", kind.all_devices, kind.millicores, kind.memory)
            for i in range(nodes)
        ),
        links=dict.fromkeys(links, DEFAULT_HOST) if virtual else links,
    )
