"""Records of jobs: in a list, in detail, as forecast."""

from dataclasses import dataclass, field

from muster.wire.api.job_relations import ParentRecord

LIVE = (
    "waiting",
    "starting",
    "running",
    "restarting",
    "resizing",
    "migrating",
    "preempting",
    "stopping",
)
"""Statuses of active jobs."""
OVER = ("succeeded", "failed", "cancelled", "skipped", "pruned")
"""Statuses of ended jobs."""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """A job in a list."""

    number: int
    name: str
    user: str
    pool: str
    status: str
    """One of `LIVE` or `OVER`."""
    priority: int = 0
    command: tuple[str, ...] = ()
    asked: str = ""
    """Requested workers: "4" or "1..8"; with servers: "1..8+2"."""
    workers: int = 0
    """Current workers."""
    servers: int = 0
    devices: int = 0
    """Devices it holds."""
    nodes: tuple[str, ...] = ()
    generation: int = 0
    submitted: float = 0.0
    started: float | None = None
    """When it first started."""
    ended: float | None = None
    step: int | None = None
    """Training steps done, if reported."""
    steps: int | None = None
    """Steps of the whole training, if known."""
    epoch: int | None = None
    loss: float | None = None
    rate: float | None = None
    """Current samples/s."""
    code: str = ""
    """Why it is in this state: a reason code of docs/reference/reasons.md."""
    reason: str = ""
    """The reason in words."""
    predicted_start: float | None = None
    predicted_finish: float | None = None
    first_predicted_finish: float | None = None
    """The first prediction, to compare with `ended`."""
    resizes: int = 0
    preemptions: int = 0
    failures: int = 0
    """Tasks that failed by their own fault."""
    losses: int = 0
    """Tasks that were lost by others' fault."""
    pause: float = 0.0
    """Seconds of training lost to changes of its tasks."""
    live: bool = False
    """Whether its tasks can change while it trains."""
    error: str | None = None
    """Why it failed, with the end of the log."""
    exit_code: int | None = None
    slowed: float | None = None
    """By how much its steps are longer beside its worst neighbour (0.1: a tenth)."""
    beside: int | None = None
    """The number of that neighbour."""
    finish_low: float | None = None
    finish_high: float | None = None
    """The 80 % interval of the predicted finish; without that, it is too wide to predict anything."""
    until: str = ""
    """What ends it, if that is its loss: "loss < 0.1", "converged 0.5% for 3 epochs"."""
    epochs: tuple[float, ...] | None = None
    """Of the whole training, predicted from its losses: mean, and ends of the 80 % interval."""
    noticed: str = ""
    """What stands out in its losses, or why they predict nothing."""
    converged: str = ""
    """That its loss has stopped falling; empty: it has not."""
    batch: int | None = None
    """Samples of a step over all workers, if they may change."""
    batch_limits: str | None = None
    """Between which they may: "128..2048"."""
    noise: float | None = None
    """The gradient's noise scale in samples, if known."""
    efficiency: float | None = None
    """How much a sample teaches at this batch, 1 at the user's own, if known."""
    labels: dict[str, str] = field(default_factory=dict)
    after: tuple[ParentRecord, ...] = ()
    """Jobs that must end before it starts."""
    position: int | None = None
    """Its place in the queue of its pool, 1 being the next; None: it does not stand there."""
    interactive: bool = False
    """Whether it has a terminal to attach to."""
    metrics: dict[str, float] = field(default_factory=dict)
    """As its script has last reported them (`muster.report`)."""
    sweep: int | None = None
    """Number of the sweep that it is a member of."""
    params: dict[str, str] = field(default_factory=dict)
    """Its values there, by name."""
    rung: int = 0
    """The highest rung that it has reached there; 0: none."""
    time_limit: float | None = None
    """s that a run may take; None: unlimited."""
    start_low: float | None = None
    start_high: float | None = None
    """The 80 % interval of the predicted start."""
    rests_on: int | None = None
    """Similar jobs that its forecast rests on; 0: on what it has shown or declared itself; None: there
    is no forecast yet."""
    preemption: float | None = None
    """Probability that it is preempted before it ends, 0 to 1."""


@dataclass(frozen=True, slots=True)
class PlanRecord:
    """How the tasks of a job share its work."""

    sync: str
    """"ring", "sharded" (parameters owned by the workers) or "dedicated" (by servers)."""
    predicted: float
    """s of a step, as predicted when it was decided."""
    text: str
    """For people."""
    decided: float = 0.0
    """When it was decided."""
    measured: float | None = None
    """s of a step as measured under it; None: not yet."""
    batch: tuple[int, ...] = ()
    """Samples of each worker; empty: equal, or as the workers find out."""
    owners: tuple[float, ...] = ()
    """Share of each owner; empty: no owners."""
    runner_up: str | None = None
    """The best plan that synchronises otherwise: `sync` of it."""
    runner_up_predicted: float | None = None
    """s of its step."""


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """One task of a job."""

    task: str
    role: str
    index: int
    generation: int
    """Of its start."""
    attempt: int
    node: str
    devices: tuple[int, ...]
    status: str
    """"ordered", "running", "stopping" or "ended"."""
    log: str
    """Its log, as in `GET /v1/jobs/{job}/logs/{generation}/{task}`: "1/worker-0"."""
    code: int | None = None
    signal: int | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class ChangeRecord:
    """An event of a job, or a decision about it."""

    seq: int
    at: float
    kind: str
    """Name of the event or decision."""
    job: str | None
    text: str
    """For people."""
    number: int | None = None
    """Of the job: names may be reused."""


@dataclass(frozen=True, slots=True)
class PredictionRecord:
    """A prediction and its outcome."""

    at: float
    what: str
    """"start", "finish" or "step"."""
    predicted: float
    """A time (start, finish) or seconds (step)."""
    real: float | None = None
    error: float | None = None
    """See `prediction_error`; for a step (predicted - real) / real."""


def workers_asked(asked: str) -> str:
    """`1 worker`, `1..8 workers`: of what a job asks for."""
    return f"{asked} worker" if asked == "1" else f"{asked} workers"


def prediction_error(predicted: float, real: float, made: float) -> float | None:
    """(predicted - real) / (real - made), all in s; None if nothing was left to predict.

    Below 0: the end was predicted too early.
    """
    return (predicted - real) / (real - made) if real > made else None


@dataclass(frozen=True, slots=True)
class ProgramRecord:
    """What a job's tasks run, where and with which variables; secrets are masked."""

    executable: str = ""
    """The file that the command's first word named at submission; empty: unknown."""
    folder: str = ""
    """Working folder; empty: a folder of the job's own."""
    shell: bool = False
    """Whether `sh -c` runs the command."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables that the job sets."""
    inherited: dict[str, str] = field(default_factory=dict)
    """Variables taken from where it was submitted; `env` overrides them."""
    host: str = ""
    """Machine on which it was submitted."""
    ship: str = ""
    """Digest of the packed folder in which it runs; empty: none."""
    checkpoint: str = ""
    """Where its checkpoints go; empty: a folder of the job's own."""


@dataclass(frozen=True, slots=True)
class JobDetail:
    """A job as in `muster show`."""

    job: JobRecord
    tasks: tuple[TaskRecord, ...] = ()
    changes: tuple[ChangeRecord, ...] = ()
    """The last hundred, oldest first."""
    predictions: tuple[PredictionRecord, ...] = ()
    losses: tuple[tuple[int, float], ...] = ()
    """Step and loss, thinned out."""
    program: ProgramRecord | None = None
    """None: the journal no longer has its submission."""
    caveats: tuple[str, ...] = ()
    """What it asks for and does not get here: limits that are not enforced."""
    plan: PlanRecord | None = None
    """How its tasks share the work, as decided; None: they decide by themselves."""
    policy: str = ""
    """The policy that decides about it: its pool's."""


@dataclass(frozen=True, slots=True)
class JobPage:
    """Jobs, and the cursor of the next page."""

    jobs: tuple[JobRecord, ...]
    next: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    """All jobs that the caller may see of this user, pool and name, by status; on the first page."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would happen to a job submitted now."""

    starts_now: bool
    placement: str
    """Where it would start; empty if it has to wait."""
    reason: str
    start: float | None
    """The median; None: unknown."""
    finish: float | None
    """The median; None: unknown."""
    plan: str
    """Tasks, synchronisation and shares, for people."""
    problem: str = ""
    """Why it could never run; empty if it could."""
    basis: str = ""
    """What the finish rests on; empty: it is unknown."""
    caveats: tuple[str, ...] = ()
    """What it asks for and does not get here: limits that are not enforced."""
    start_low: float | None = None
    start_high: float | None = None
    """The 80 % interval of the start."""
    finish_low: float | None = None
    finish_high: float | None = None
    """The 80 % interval of the finish."""
    rests_on: int | None = None
    """Similar jobs that it rests on; None: the future was not played."""
    preemption: float | None = None
    """Probability that it is preempted before it ends, 0 to 1."""
    late: bool = False
    """Whether there was no time to play the future: what is unknown may be known soon."""
