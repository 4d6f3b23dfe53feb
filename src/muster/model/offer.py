"""What a node offers when it joins: what NVML, the engine or its administrator says of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeOffer:
    """A node as its agent describes it; rules of the cluster file say what it counts as."""

    name: str
    millicores: int
    memory: int
    """Bytes."""
    devices: int = 0
    device_type: str = ""
    """As in the cluster file: "H100"; "cpu" for virtual devices without a type of their own."""
    device_memory: int = 0
    """Bytes of one device; 0: unknown."""
    virtual: bool = False
    """Whether its devices are made of CPU cores, whatever they are called."""
    sockets: int = 1
    switches: tuple[int, ...] = ()
    """Devices under each PCIe switch; empty: unknown."""
    nvlink: int = 0
    """Devices of an NVLink group; 0: none."""
    nvlink_rate: int = 0
    """GB/s per direction of one device to its group."""
    bandwidth: int = 0
    """Bytes/s of its network card; 0: unknown."""
    rack: str = ""
    """Of the engine's topology; empty: unknown."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of the engine, or given to the agent."""
    engine: str = ""
    """Who brought the agent there: "machines", "ray", "slurm"."""
    address: str = ""
    """Where other nodes reach it."""
    ports: tuple[int, int] = (20_000, 31_999)
    """First and last port at which its tasks may listen."""
    interface: str = ""
    """Network interface of the address; empty: unknown."""
    user: str = ""
    """Whom its tasks run as; empty: their submitters."""
    containers: tuple[str, ...] = ()
    """Engines that it has to run containers."""
