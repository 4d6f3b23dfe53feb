"""What is written to the store at once, and what is read from it."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.task import Fact
from muster.wire.api.job_records import JobRecord, PredictionRecord
from muster.wire.api.sweep_records import SweepRecord
from muster.wire.api.trust_records import ActRecord


@dataclass(frozen=True, slots=True)
class Note:
    """A record outside the journal, such as a measurement."""

    kind: str
    key: str
    at: float
    body: bytes


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """A caller's idempotency key, and what was submitted with it."""

    user: str
    """Who chose the key: the caller, not the user that the job is for."""
    key: str
    number: int
    digest: str = ""
    """Of the job as sent; empty: unknown, submitted before it was kept."""


@dataclass(frozen=True, slots=True)
class Use:
    """What a job held of a device type within an hour; added to what is stored of it."""

    hour: int
    """Hours since 1970."""
    number: int
    device_type: str
    user: str
    pool: str
    application: str
    held: float = 0.0
    """Device-seconds, as are those below."""
    idle: float = 0.0
    """Of them without running: starting, stopping, waiting to restart."""
    lost: float = 0.0
    """Work that has to be done again, or was in vain."""
    until: float = 0.0
    """Up to when the job is charged."""
    busy: float = 0.0
    """Held, times the part of it in which the device computed; only of what was watched."""
    watched: float = 0.0
    """Held while its devices told how busy they are."""
    labels: str = ""
    """Of the job, as a sorted JSON object; empty: none."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A value of a training at a step."""

    number: int
    what: str
    """"loss", or a metric that its script reports."""
    step: int
    at: float
    value: float
    samples: int = 0
    """Trained on by then, repeated ones included: two points tell the rate between them."""
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a job holds the same devices in the same status."""

    number: int
    began: float
    status: str
    """"starting", "running", "resizing", "migrating", "preempting" or "restarting"."""
    devices: Mapping[str, tuple[int, ...]]
    """By node."""
    workers: int = 0
    servers: int = 0
    code: str = ""
    """Why it has them: the reason of a decision; empty: none decided it."""
    reason: str = ""
    """In words."""
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class ForecastRow:
    """What was said about a job's start or finish, when, and what came of it. Times in s; None in place
    of one that is not finite."""

    number: int
    what: str
    """"start" or "finish"."""
    mark: str
    """When in the job's life: "submission", "start", "25%", "50%" or "75%"."""
    made: float
    low: float | None
    middle: float | None
    high: float | None
    raw_low: float | None
    raw_middle: float | None
    raw_high: float | None
    """Before it was corrected by forecasts that came true."""
    pool: str
    waited: bool
    """Whether the job was waiting."""
    rests_on: int
    """Similar jobs that it rests on; 0: its own progress."""
    came: float | None = None


@dataclass(frozen=True, slots=True)
class ForecastOutcome:
    """When a job started or ended; None: somebody stopped it, and nothing comes of its forecasts."""

    number: int
    what: str
    came: float | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One transaction: stored as a whole or not at all."""

    facts: tuple[Fact, ...] = ()
    """In order."""
    records: tuple[JobRecord, ...] = ()
    """Each replaces the record of its number."""
    keys: tuple[SubmissionKey, ...] = ()
    predictions: tuple[tuple[int, PredictionRecord], ...] = ()
    """Job number and prediction; each replaces that of the same job, kind and moment."""
    notes: tuple[Note, ...] = ()
    acts: tuple[ActRecord, ...] = ()
    """For the audit log."""
    uses: tuple[Use, ...] = ()
    """For the accounts; each is added to what is stored of its hour, job and device type."""
    sweeps: tuple[SweepRecord, ...] = ()
    """Each replaces the record of its number."""
    points: tuple[CurvePoint, ...] = ()
    """Each replaces that of its job, kind and step."""
    spans: tuple[Span, ...] = ()
    """Each replaces that of its job and beginning."""
    forecasts: tuple[ForecastRow, ...] = ()
    """Each replaces that of its job, kind and mark."""
    outcomes: tuple[ForecastOutcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Journalled:
    """A fact and its number in the journal."""

    seq: int
    fact: Fact
    name: str | None = None
    """Of its job, if requested."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The fold of the journal up to and including `seq`, encoded by the daemon."""

    seq: int
    body: bytes
