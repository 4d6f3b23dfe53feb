"""This machine as a cluster: its GPUs, or virtual devices on its cores."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.executors.gpus import Gpus, MixedError, find_gpus
from muster.files.cluster.cluster_entries import ConfigurationEntry
from muster.files.cluster.cluster_file import configuration_of
from muster.files.errors import FieldError, InputError, shown
from muster.files.source.tree import DEFAULT_LINKS
from muster.model.cluster import Cluster, Node
from muster.model.topology import DEFAULT_HOST, MAX_DEVICES, ConfigurationSet, Level
from muster.perf.devices import rate_of_cores

VIRTUAL = "cpu"
"""The type of virtual devices."""

MAX_NODES = 1000
"""Most virtual nodes: more is a typing error."""

LOOPBACK = {
    "bandwidth": f"{DEFAULT_HOST.bandwidth / 1e9:g}GB/s",
    "latency": f"{DEFAULT_HOST.latency * 1e6:g}us",
}
"""What virtual devices communicate through, whatever their tree."""


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
    machine = this_machine()
    if topology is not None:
        grid = parse_topology(topology)
        if devices not in (None, grid.nodes * grid.sockets * grid.devices):
            raise InputError(f"topology {topology} does not have {devices} devices; give one of them")
        return virtual_cluster(grid, machine)
    if devices is not None:
        if devices < 1:
            raise InputError(f"{devices} devices: there must be at least 1")
        return virtual_cluster(Grid(1, 1, devices), machine)
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
    each = grid.sockets * grid.devices
    if each > MAX_DEVICES:
        total = grid.nodes * each
        raise InputError(
            f"a node has at most {MAX_DEVICES} devices, not {each}; spread them over more nodes, "
            f"for example {-(-total // MAX_DEVICES)}x{MAX_DEVICES}"
        )
    if grid.nodes > MAX_NODES:
        raise InputError(f"{grid.nodes} virtual nodes are too many; the maximum is {MAX_NODES}")
    millicores, memory = machine.millicores // grid.nodes, machine.memory // grid.nodes
    rate = rate_of_cores(millicores / 1000 / each)
    kind = _configured(
        VIRTUAL,
        {
            "device": VIRTUAL,
            "devices": str(each),
            "sockets": str(grid.sockets),
            "device_memory": f"{memory // each}B",
            "device_rate": f"{rate.single / 1e9:.6f}G",
            "device_bandwidth": f"{rate.memory / 1e9:.6f}GB/s",
            "links": dict.fromkeys(("switch", "socket", "node"), LOOPBACK),
            "nic": LOOPBACK,
        },
        Machine(millicores, memory),
    )
    return _cluster(kind, grid.nodes, virtual=True)


def gpu_cluster(gpus: Gpus, machine: Machine) -> Cluster:
    """Make one node, n0, with the GPUs of this machine."""
    if gpus.count > MAX_DEVICES:
        raise InputError(
            f"a node has at most {MAX_DEVICES} devices, and this machine has {gpus.count} GPUs; "
            "describe some of them in a cluster file"
        )
    entry: dict[str, Any] = {
        "device": gpus.device_type,
        "devices": str(gpus.count),
        "device_memory": f"{gpus.memory}B",
    }
    tree: dict[str, Any] = {
        "sockets": str(len(gpus.sockets)),
        "switches": [str(size) for size in gpus.switches],
    }
    nvlink = {"group": str(gpus.nvlink), "bandwidth": f"{gpus.nvlink_rate}GB/s"}
    for more in ((tree | {"nvlink": nvlink}) if gpus.nvlink else tree, tree, {}):
        try:
            return _cluster(_configured(gpus.device_type, entry | more, machine), 1)
        except FieldError:
            continue  # groups that do not nest or are uneven: a simpler tree is true as well
    raise AssertionError("devices under one switch always form a tree")


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


def _configured(name: str, entry: dict[str, Any], machine: Machine) -> ConfigurationSet:
    # As text, which is what fields of a cluster file are read from.
    whole = {"cores": f"{machine.millicores / 1000:g}", "memory": f"{machine.memory}B"}
    return configuration_of(name, ConfigurationEntry.model_validate(entry | whole))


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
