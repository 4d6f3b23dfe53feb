"""What every device does, in one record: for pictures of the whole cluster."""

from dataclasses import dataclass

FREE, HIDDEN = 0, -1
"""In place of a job's number: nobody's device, and one of a job that the reader may not see."""


@dataclass(frozen=True, slots=True)
class MappedNode:
    """A node and its devices."""

    name: str
    state: str
    """"up", "draining" or "lost"."""
    device_type: str
    rack: str = ""
    domain: str = ""
    trouble: str = ""
    """What is wrong with it: its health, or why it is draining or lost; empty: nothing."""
    jobs: tuple[int, ...] = ()
    """Number of the job on each device; 0: free, -1: a job that the reader may not see."""
    promised: tuple[int, ...] = ()
    """Number of the job that each device is withheld for, as in `jobs`; empty: none is."""


@dataclass(frozen=True, slots=True)
class MappedJob:
    """A job on the map."""

    number: int
    name: str
    user: str
    pool: str
    status: str
    devices: int


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """All nodes, and the jobs on them that the reader may see."""

    nodes: tuple[MappedNode, ...]
    jobs: tuple[MappedJob, ...]
    free: int
    """Free devices on nodes that are up."""
    fragmentation: float
    """Share of them on partly used nodes: 0 is whole, 1 is all in pieces."""
