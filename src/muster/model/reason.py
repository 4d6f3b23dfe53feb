"""Why: a code of a fixed set, with the figures behind it.

`docs/reasons.md` is generated from this file, so each code carries the sentence a user reads.
"""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.topology import Level


class Code(StrEnum):
    """Every reason a decision can have."""

    STARTED = "started.fits"
    STARTED_BORROWING = "started.borrowing"
    STARTED_BACKFILLED = "started.backfilled"
    STARTED_PROMISED = "started.promised"
    GROWN = "resized.grown"
    SHRUNK = "resized.shrunk"
    SHRUNK_ASKED = "resized.asked"
    RESIZED_POLICY = "resized.policy"
    MIGRATED = "migrated.makes_room"
    MIGRATED_POLICY = "migrated.policy"
    PREEMPTED = "preempted.reclaimed"
    PREEMPTED_POLICY = "preempted.policy"
    CONTINUES = "running.continues"
    AT_MOST = "running.at_most"
    CHANGING = "running.changing"
    WAITING_LIMIT = "waiting.limit"
    WAITING_RESERVATION = "waiting.reservation"
    WAITING_QUOTA = "waiting.quota"
    WAITING_RECLAIM = "waiting.reclaim"
    WAITING_MIGRATION = "waiting.migration"
    WAITING_PROMISE = "waiting.promise"
    WAITING_NODES = "waiting.nodes"
    WAITING_DEVICES = "waiting.devices"
    WAITING_FRAGMENTED = "waiting.fragmented"
    WAITING_CORES = "waiting.cores"
    WAITING_POLICY = "waiting.policy"


SENTENCES: dict[Code, str] = {
    Code.STARTED: "the gang fits inside its pool's entitlement",
    Code.STARTED_BORROWING: "it starts on idle devices beyond its pool's entitlement",
    Code.STARTED_BACKFILLED: "it ends before the devices promised to another job come free",
    Code.STARTED_PROMISED: "the devices promised to the gang have come free",
    Code.GROWN: "devices are free and the job can use more",
    Code.SHRUNK: "another job's gang needs the devices above this job's least",
    Code.SHRUNK_ASKED: "its user asks for fewer tasks than it has",
    Code.RESIZED_POLICY: "the policy's share for it has changed by more than a resize costs",
    Code.MIGRATED: "moving this job makes room for a gang whose contract could not be met",
    Code.MIGRATED_POLICY: "the policy wants it on devices of another type",
    Code.PREEMPTED: "its pool runs on borrowed devices that their owner asks back",
    Code.PREEMPTED_POLICY: "the policy gives its devices to other jobs",
    Code.CONTINUES: "nothing better was found for it",
    Code.AT_MOST: "it has all it asked for",
    Code.CHANGING: "it is being started, resized, moved or stopped",
    Code.WAITING_LIMIT: "the pool would rise above its limit",
    Code.WAITING_RESERVATION: "not preemptible, and the pool's reservation is used up",
    Code.WAITING_QUOTA: "the pool has used its entitlement and no device is idle",
    Code.WAITING_RECLAIM: "gangs that hold its devices are being stopped or shrunk",
    Code.WAITING_MIGRATION: "smaller jobs are being moved out of its way",
    Code.WAITING_PROMISE: "enough devices are free, but they are promised to another job",
    Code.WAITING_NODES: "it would fit if lost or draining nodes came back",
    Code.WAITING_DEVICES: "too few devices of its types are free",
    Code.WAITING_FRAGMENTED: "enough devices are free, but not close enough together for its contract",
    Code.WAITING_CORES: "devices are free, but not with the CPU cores and memory it asks beside them",
    Code.WAITING_POLICY: "the policy gives it nothing now",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what another waits for."""

    name: str
    pool: str
    devices: int


@dataclass(frozen=True, slots=True)
class Shortfall:
    """What was asked and what was there."""

    asked: int
    free: int
    largest: int
    """Most devices of the gang that would fit inside one group of the contract's level."""
    widest: Level


@dataclass(frozen=True, slots=True)
class Quantity:
    """A pool's books for a device type: what is asked of it, what it uses, and what binds it."""

    pool: str
    device_type: str
    asked: int
    used: int
    bound: int


@dataclass(frozen=True, slots=True)
class RequestChange:
    """The smallest change of the request with which it would start now: one field, new value."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Reason:
    """A code, and whichever figures belong to it."""

    code: Code
    shortfall: Shortfall | None = None
    quantity: Quantity | None = None
    holders: tuple[Holder, ...] = ()
    would_start: RequestChange | None = None
    beneficiary: str | None = None
    """The name of the job that a migration, a preemption or a shrinking serves, or that devices are
    kept for."""
    cost: float | None = None
    """Device-seconds of work the decision costs."""
    gain: float | None = None
    """Device-seconds of waiting it is expected to save."""
