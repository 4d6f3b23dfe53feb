"""The result of a simulation: a record per job, samples over time, and who held what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """What became of a job."""

    DONE = "done"
    REFUSED = "refused"
    """It could never run on this cluster."""
    UNFINISHED = "unfinished"
    """Still live when nothing more could happen, or when the simulation stopped."""


@dataclass(frozen=True, slots=True)
class JobResult:
    """One job's record. Times in s since the simulation began; None is never."""

    name: str
    user: str
    pool: str
    application: str | None
    devices: int
    """Requested: the devices of its gang."""
    submitted: float
    started: float | None
    """Start of its first run."""
    ended: float | None
    fate: Fate
    alone: float
    """s it would take alone, on what it requested."""
    best: float
    """s it would take alone, on the best it could be given."""
    least: float
    """Device-seconds at its most efficient: the cluster's least work for it."""
    run: float = 0.0
    """s it held devices."""
    paused: float = 0.0
    """The part of it lost in starts, resizes and migrations."""
    held: float = 0.0
    """Device-seconds held."""
    lost: float = 0.0
    """Wasted device-seconds: pauses, and work repeated after a failure."""
    resizes: int = 0
    preemptions: int = 0
    migrations: int = 0
    failures: int = 0
    """Runs ended by a lost node."""


@dataclass(frozen=True, slots=True)
class ClusterSample:
    """The cluster from one moment until the next sample."""

    at: float
    running: int
    waiting: int
    used: int
    """Devices held."""
    capacity: int
    """Devices present."""
    stranded: int
    """Free devices on partly used nodes: fragmentation."""


@dataclass(frozen=True, slots=True)
class Stint:
    """Devices of one node that a job held without a change, for the Gantt chart."""

    job: str
    node: str
    bits: int
    begin: float
    end: float


@dataclass(frozen=True, slots=True)
class Result:
    """One simulation: configuration and seed, which reproduce it exactly, and its records."""

    configuration: Mapping[str, object]
    seed: int
    policy: str
    hash: str
    """Of configuration and seed: equal hashes, equal results."""
    records: tuple[JobResult, ...]
    samples: tuple[ClusterSample, ...]
    stints: tuple[Stint, ...] = ()
    """Empty unless requested."""
    cycles: int = 0
    events: int = 0
    cpu: float = 0.0
    """s of processor time; the only figure that differs between runs."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the reader: counts of rejected jobs, rows left out, and the like."""
