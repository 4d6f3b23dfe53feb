"""What a simulation leaves behind: a record for each job, samples over time, and who held what."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Fate(StrEnum):
    """What became of a job."""

    DONE = "done"
    REFUSED = "refused"
    """It could never run on this cluster."""
    UNFINISHED = "unfinished"
    """It was still there when nothing more could happen, or when the simulation was told to stop."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job's life. Times in s since the simulation began; None is never."""

    name: str
    user: str
    pool: str
    application: str | None
    devices: int
    """What it asked for: the devices of its gang."""
    submitted: float
    started: float | None
    """Begin of its first run."""
    ended: float | None
    fate: Fate
    alone: float
    """s it would take by itself, on what it asked for."""
    best: float
    """s it would take by itself, on the best it could be given."""
    least: float
    """Device-seconds it takes at its most efficient: the cluster's least work for it."""
    run: float = 0.0
    """s it held devices."""
    paused: float = 0.0
    """The part of it lost in starts, resizes and migrations."""
    held: float = 0.0
    """Device-seconds held."""
    lost: float = 0.0
    """Device-seconds that bought nothing: pauses, and work done twice after a failure."""
    resizes: int = 0
    preemptions: int = 0
    migrations: int = 0
    failures: int = 0
    """Runs ended by a lost node."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The cluster from one moment until the next sample."""

    at: float
    running: int
    waiting: int
    used: int
    """Devices held."""
    capacity: int
    """Devices there were."""
    stranded: int
    """Free devices on nodes of which others are in use: fragmentation."""


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
    """One simulation: its configuration and seed, which give it again to the digit, and what it saw."""

    configuration: Mapping[str, object]
    seed: int
    policy: str
    hash: str
    """Of configuration and seed: results of one hash are equal."""
    records: tuple[JobRecord, ...]
    samples: tuple[Sample, ...]
    stints: tuple[Stint, ...] = ()
    """Empty unless they were asked for."""
    cycles: int = 0
    events: int = 0
    cpu: float = 0.0
    """s of processor time; the one figure that differs from run to run."""
    notes: tuple[str, ...] = field(default=())
    """What a reader must know: jobs refused, rows left out, and the like, counted."""
