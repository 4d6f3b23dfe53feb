"""Why: a code of a fixed set, with the figures behind it.

`docs/reference/reasons.md` is generated from this file, so each code carries the sentence a user reads.
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
    Code.STARTED: "the gang fits within its pool's entitlement",
    Code.STARTED_BORROWING: "starts on idle devices beyond its pool's entitlement",
    Code.STARTED_BACKFILLED: "will end before the devices promised to another job are free",
    Code.STARTED_PROMISED: "the devices promised to the gang are free",
    Code.GROWN: "devices are free, and the job can use more",
    Code.SHRUNK: "another job's gang needs the devices above this job's minimum",
    Code.SHRUNK_ASKED: "its user now asks for fewer tasks",
    Code.RESIZED_POLICY: "its share has changed by more than a resize costs",
    Code.MIGRATED: "moved to make room for a gang that would not fit otherwise",
    Code.MIGRATED_POLICY: "the policy wants it on another type of device",
    Code.PREEMPTED: "its borrowed devices were reclaimed by the owning pool",
    Code.PREEMPTED_POLICY: "the policy gives its devices to other jobs",
    Code.CONTINUES: "no better allocation was found",
    Code.AT_MOST: "has all it asked for",
    Code.CHANGING: "is being started, resized, moved or stopped",
    Code.WAITING_LIMIT: "its pool would exceed its limit",
    Code.WAITING_RESERVATION: "not preemptible, and its pool's reservation is used up",
    Code.WAITING_QUOTA: "its pool has used its entitlement, and no device is idle",
    Code.WAITING_RECLAIM: "the jobs on its devices are being stopped or shrunk",
    Code.WAITING_MIGRATION: "smaller jobs are being moved to make room",
    Code.WAITING_PROMISE: "enough devices are free, but promised to another job",
    Code.WAITING_NODES: "would fit if lost or draining nodes came back",
    Code.WAITING_DEVICES: "too few devices of its types are free",
    Code.WAITING_FRAGMENTED: "enough devices are free, but too far apart for its contract",
    Code.WAITING_CORES: "devices are free, but not with the CPU cores and memory it needs",
    Code.WAITING_POLICY: "other jobs come first under the policy",
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
class Change:
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
    would_start: Change | None = None
    beneficiary: str | None = None
    """The name of the job that a migration, a preemption or a shrinking serves, or that devices are
    kept for."""
    cost: float | None = None
    """Device-seconds of work the decision costs."""
    gain: float | None = None
    """Device-seconds of waiting it is expected to save."""
