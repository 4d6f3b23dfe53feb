"""Reasons: a code from a fixed set, with the figures behind it.

`docs/reference/reasons.md` is generated from this file.
"""

from dataclasses import dataclass, field
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
    RESIZED_DRAINED = "resized.drained"
    RESIZED_LINKS = "resized.links"
    MIGRATED = "migrated.makes_room"
    MIGRATED_POLICY = "migrated.policy"
    MIGRATED_DRAINED = "migrated.drained"
    MIGRATED_APART = "migrated.apart"
    MIGRATED_LINKS = "migrated.links"
    PREEMPTED = "preempted.reclaimed"
    PREEMPTED_POLICY = "preempted.policy"
    PREEMPTED_DRAINED = "preempted.drained"
    STAFFED = "resized.servers"
    REPLANNED = "replanned.faster"
    CONTINUES = "running.continues"
    AT_MOST = "running.at_most"
    CHANGING = "running.changing"
    WAITING_LIMIT = "waiting.limit"
    WAITING_USER_LIMIT = "waiting.user_limit"
    WAITING_RESERVATION = "waiting.reservation"
    WAITING_QUOTA = "waiting.quota"
    WAITING_RECLAIM = "waiting.reclaim"
    WAITING_MIGRATION = "waiting.migration"
    WAITING_PROMISE = "waiting.promise"
    WAITING_NODES = "waiting.nodes"
    WAITING_JOIN = "waiting.join"
    WAITING_DEVICES = "waiting.devices"
    WAITING_FRAGMENTED = "waiting.fragmented"
    WAITING_CORES = "waiting.cores"
    WAITING_POLICY = "waiting.policy"
    WAITING_HELD = "waiting.held"
    WAITING_RUNG = "waiting.rung"
    WAITING_RESTART = "waiting.restart"
    WAITING_BUDGET = "waiting.budget"
    RESTARTING = "running.restarting"
    CONVERGED = "running.converged"
    STOPPING_RUNG = "stopping.rung"
    WAITING_AFTER = "waiting.after"
    SKIPPED = "skipped.after"


SENTENCES: dict[Code, str] = {
    Code.STARTED: "the gang fits within its pool's entitlement",
    Code.STARTED_BORROWING: "started on idle devices beyond its pool's entitlement",
    Code.STARTED_BACKFILLED: "ends before the devices promised to another job come free",
    Code.STARTED_PROMISED: "the devices promised to it are free",
    Code.GROWN: "devices are free, and the job can use more",
    Code.SHRUNK: "another job's gang needs the workers above this job's minimum",
    Code.SHRUNK_ASKED: "the user asked for fewer tasks than it has",
    Code.RESIZED_POLICY: "the policy's share for it changed by more than a resize costs",
    Code.RESIZED_DRAINED: "moved live off a draining node",
    Code.RESIZED_LINKS: "moved live off a node whose link is slow",
    Code.MIGRATED: "moved to make room for a gang that would not have fitted otherwise",
    Code.MIGRATED_POLICY: "the policy wants it on another device type",
    Code.MIGRATED_DRAINED: "moved to other devices: its node is draining and must be empty soon",
    Code.MIGRATED_APART: "moved away from neighbours: they slowed each other down",
    Code.MIGRATED_LINKS: "moved off a node whose link is slow: that saves more than the move costs",
    Code.PREEMPTED: "borrowed devices reclaimed by the owning pool",
    Code.PREEMPTED_POLICY: "the policy gives its devices to other jobs",
    Code.PREEMPTED_DRAINED: "its node is draining and must be empty soon, and nothing else is free",
    Code.STAFFED: "another number of parameter servers makes its steps faster",
    Code.REPLANNED: "its tasks share the work otherwise: that saves more time than the change costs",
    Code.CONTINUES: "keeps running: no better size or placement found",
    Code.AT_MOST: "running with all it asked for",
    Code.CHANGING: "starting, resizing, migrating or stopping",
    Code.WAITING_LIMIT: "would exceed the pool's limit",
    Code.WAITING_USER_LIMIT: "would exceed the pool's limit of devices per user",
    Code.WAITING_RESERVATION: "not preemptible, and the pool's reservation is used up",
    Code.WAITING_QUOTA: "more than is left of the pool's entitlement, and too few devices are idle",
    Code.WAITING_RECLAIM: "the jobs on its devices are being stopped or shrunk",
    Code.WAITING_MIGRATION: "smaller jobs are being moved out of the way",
    Code.WAITING_PROMISE: "enough devices are free, but promised to another job",
    Code.WAITING_NODES: "would fit if lost or draining nodes came back",
    Code.WAITING_JOIN: "more than all nodes hold that have joined so far; it starts when others join",
    Code.WAITING_DEVICES: "too few free devices of its types",
    Code.WAITING_FRAGMENTED: "enough devices are free, but too far apart for its locality contract",
    Code.WAITING_CORES: "devices are free, but too few CPU cores or too little memory beside them",
    Code.WAITING_POLICY: "other jobs come first under the policy",
    Code.WAITING_HELD: "held by a user, until `muster release`",
    Code.WAITING_RUNG: "paused by its sweep until its metric is among the best of its rung",
    Code.STOPPING_RUNG: "stopped by its sweep: others do better after as many epochs",
    Code.WAITING_RESTART: "waits in the queue before it restarts, after losses in a row",
    Code.WAITING_BUDGET: "its pool or its user has used up the month's device-hours",
    Code.CONVERGED: "its loss has stopped falling; it runs on until its own end or `muster stop`",
    Code.RESTARTING: "waits on its devices before it restarts, after a loss",
    Code.WAITING_AFTER: "waits for another job to end; it holds no place in the queue until then",
    Code.SKIPPED: "ended without a start: a job that it comes after ended otherwise",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """A job that holds what another waits for."""

    name: str
    pool: str
    devices: int
    number: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Devices requested and available."""

    asked: int
    free: int
    largest: int
    """Most devices of the gang that fit inside one group of the contract's level."""
    widest: Level


@dataclass(frozen=True, slots=True)
class Quantity:
    """A pool's device type: requested, used, and the bound that applies."""

    pool: str
    device_type: str
    asked: int
    used: int
    bound: int
    user: str = ""
    """Whose use it is, if the bound is for each user."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What a cluster whose nodes come and go does not have yet."""

    asked: int
    """Devices of the gang."""
    types: tuple[str, ...]
    """The job's; empty: any."""
    there: int
    """Devices of these types on all nodes."""
    largest: int
    """The most of them on one node."""
    widest: Level


@dataclass(frozen=True, slots=True)
class RequestChange:
    """The smallest change of a request that would start now: a field and its new value."""

    field: str
    value: str


@dataclass(frozen=True, slots=True)
class Avoided:
    """A neighbour that a job was placed apart from, and how much longer its steps would be there."""

    name: str
    number: int
    slowed: float


class Measure(StrEnum):
    """What a policy ranks jobs by."""

    WORTH = "worth"
    """s of everybody's waiting that a device saves each second with the job; the most first."""
    LEFT = "left"
    """s left with its gang, infinite if unknown; the least first."""
    SERVICE = "service"
    """Device-seconds had so far; the least first."""
    SHARE = "share"
    """Part of its dominant resource that it is given; the least first."""
    DELAY = "delay"
    """Time to its end over that with a fair share; the most first."""
    OWED = "owed"
    """s that it is due and has not had; the most first."""
    AGE = "age"
    """s since its submission; the most first."""


@dataclass(frozen=True, slots=True)
class QueueRival:
    """A job that comes before another under the policy."""

    name: str
    devices: int
    """That it has after this cycle; 0: it waits as well."""
    value: float | None = field(default=None, compare=False)
    number: int = field(default=0, compare=False)
    priority: int = 0
    urgent: bool = field(default=False, compare=False)
    """Whether it comes first whatever its value."""


@dataclass(frozen=True, slots=True)
class QueueRank:
    """Where a job stands in its pool under the policy.

    Only who is ahead makes two of them differ: figures move with every second, and a reason is told
    again when it differs.
    """

    measure: Measure
    ahead: tuple[QueueRival, ...] = ()
    """Those it has to pass: the last that were served, or if none were, the next before it."""
    value: float | None = field(default=None, compare=False)
    """Its own, in the unit of the measure."""
    place: int = field(default=0, compare=False)
    """Among those of its pool that wait, 1 being the next; 0: it does not wait."""
    waiting: int = field(default=0, compare=False)
    pool: str = ""
    used: int = field(default=0, compare=False)
    """Devices that its pool uses, of the types that the job may have."""
    entitled: int = field(default=0, compare=False)
    priority: int = 0
    holding: tuple[QueueRival, ...] = ()
    """If nobody is ahead of it: those served after it, with what it could use or cannot have."""
    urgent: bool = field(default=False, compare=False)
    """Whether it comes first whatever its value."""


@dataclass(frozen=True, slots=True)
class Reason:
    """A code and its figures."""

    code: Code
    shortfall: Shortfall | None = None
    quantity: Quantity | None = None
    holders: tuple[Holder, ...] = ()
    would_start: RequestChange | None = None
    beneficiary: str | None = None
    """Name of the job that a migration, preemption or shrink serves, or that devices are kept for."""
    cost: float | None = None
    """Device-seconds of work lost by the decision."""
    gain: float | None = None
    """Device-seconds of waiting expected to be saved."""
    lost: float | None = None
    """Seconds of work lost with a job that starts over."""
    served: int = field(default=0, compare=False)
    """Number of the beneficiary; 0: unknown."""
    lack: Lack | None = None
    """What is to join before the job can start."""
    because: str = ""
    """The draining node that the job leaves, and why it is draining."""
    avoided: Avoided | None = None
    """The neighbour it would have got but for what was learnt."""
    rank: QueueRank | None = None
    """What it competes with under the policy; of a job that makes way, with whom it lost."""
    speed: float | None = None
    """Its speed after a change over that before, as believed."""
    given: int = 0
    """Devices of it that the beneficiary gets."""
