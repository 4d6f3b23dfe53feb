"""What the API says of jobs, nodes, pools and the rest: plain records, JSON on the wire.

Times are seconds since 1970; None is never or not known.
"""

from dataclasses import dataclass, field

LIVE = ("waiting", "starting", "running", "resizing", "migrating", "preempting", "stopping")
"""Statuses of a job that is not over."""
OVER = ("succeeded", "failed", "cancelled")
"""Statuses of a job that is."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job as a list shows it."""

    number: int
    name: str
    user: str
    pool: str
    status: str
    """One of `LIVE` or `OVER`."""
    priority: int = 0
    command: tuple[str, ...] = ()
    asked: str = ""
    """Workers it asks for: "4" or "1..8"; with servers: "1..8+2"."""
    workers: int = 0
    """Workers it has now."""
    servers: int = 0
    devices: int = 0
    """Devices it holds now."""
    nodes: tuple[str, ...] = ()
    generation: int = 0
    submitted: float = 0.0
    started: float | None = None
    """When it first began."""
    ended: float | None = None
    step: int | None = None
    """Training steps done, where it reports them."""
    steps: int | None = None
    """Steps it will do, where that is known."""
    epoch: int | None = None
    loss: float | None = None
    rate: float | None = None
    """Samples per s now."""
    code: str = ""
    """Why it is as it is: a reason code of docs/reference/reasons.md."""
    reason: str = ""
    """The same in a sentence with the figures."""
    predicted_start: float | None = None
    predicted_finish: float | None = None
    first_predicted_finish: float | None = None
    """What was first predicted: to be held against `ended`."""
    resizes: int = 0
    preemptions: int = 0
    failures: int = 0
    """Tasks that failed by their own fault."""
    losses: int = 0
    """Tasks that were lost by others' fault."""
    pause: float = 0.0
    """s of training that changes of its tasks have cost so far."""
    live: bool = False
    """Whether it changes its tasks while it trains."""
    error: str | None = None
    """Why it failed, with the last lines of the log."""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task of a job."""

    task: str
    role: str
    index: int
    generation: int
    """In which it was started."""
    attempt: int
    node: str
    devices: tuple[int, ...]
    status: str
    """"ordered", "running", "stopping" or "ended"."""
    log: str
    """Its log, as `GET /v1/jobs/{job}/logs/{generation}/{task}` wants it: "1/worker-0"."""
    code: int | None = None
    signal: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """Something that happened to a job, or was decided about it."""

    seq: int
    at: float
    kind: str
    """The name of the event, or of the decision."""
    job: str | None
    text: str
    """In words."""


@dataclass(frozen=True, slots=True)
class PredictionRecord:
    """A prediction, and what came of it."""

    at: float
    what: str
    """"start", "finish" or "step"."""
    predicted: float
    """A moment (start, finish) or s (step)."""
    real: float | None = None
    error: float | None = None
    """See `prediction_error`; for a step (predicted - real) / real."""


def prediction_error(predicted: float, real: float, made: float) -> float | None:
    """(predicted - real) / (real - made), all in s; None if nothing was left to predict.

    Below 0: the end was predicted too early.
    """
    return (predicted - real) / (real - made) if real > made else None


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job as `muster show` shows it."""

    job: JobRecord
    tasks: tuple[TaskRecord, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    """Newest last, the last hundred."""
    predictions: tuple[PredictionRecord, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    """Step and loss, thinned out."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first, and where the next page begins."""

    jobs: tuple[JobRecord, ...]
    next: str | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would become of a job if it were submitted now."""

    starts_now: bool
    placement: str
    """Where, in words; empty if it has to wait."""
    reason: str
    start: float | None
    finish: float | None
    plan: str
    """Tasks, synchronisation and shares, in words."""
    problem: str = ""
    """Why it could never run; empty if it could."""


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A node."""

    name: str
    state: str
    """"up", "draining" or "lost"."""
    device_type: str
    devices: int
    free: int
    cores: float
    memory: int
    jobs: tuple[str, ...] = ()
    bitmap: str = ""
    """One letter a device: "." free, "x" held."""


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """A pool's claim on one device type, and what it has of it."""

    device_type: str
    reservation: int = 0
    share: float = 1.0
    limit: int | None = None
    entitled: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class PoolRecord:
    """A pool."""

    name: str
    parent: str
    quotas: tuple[QuotaRecord, ...] = ()
    pending: int = 0
    running: int = 0
    leaf: bool = True
    shared: bool = False
    """Whether its users may see and stop each other's jobs."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token; its secret is shown once, when it is made."""

    name: str
    user: str
    role: str
    """"admin" or "user"."""
    created: float
    used: float | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The policy, and those there are."""

    name: str
    policies: tuple[str, ...]
    text: str = ""
    """What it does, in a few words."""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """The daemon itself."""

    version: str
    cluster: str
    role: str
    """"active" or "standby"."""
    since: float
    policy: str
    devices: int
    free: int
    pending: int
    running: int
    cycles: int
    last_cycle: float
    """s that the last cycle took."""
    trouble: str = ""
    """What is wrong, such as a full disk; empty if nothing is."""
    counts: dict[str, int] = field(default_factory=dict)
    """Jobs by status."""
