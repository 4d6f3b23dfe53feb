"""Records of the API: jobs, nodes, pools and the rest, as JSON.

Times are seconds since 1970; None: never or unknown.
"""

from dataclasses import dataclass, field

from muster.wire.job_relations import ParentRecord

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
    """Like jobs that its forecast rests on; 0: on what it has shown or declared itself; None: there is
    no forecast yet."""
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
    """Like jobs that it rests on; None: the future was not played."""
    preemption: float | None = None
    """Probability that it is preempted before it ends, 0 to 1."""


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """How a node is, as its agent said; `AgentAlive.health` has these keys. None: unknown."""

    temperature: float | None = None
    """Of its hottest device, in degrees Celsius."""
    slowdown: float | None = None
    """The temperature at which that device slows itself down."""
    ecc: int = 0
    """Uncorrected memory errors of its devices since their driver was loaded."""
    xids: tuple[int, ...] = ()
    """Numbers of the errors (Xid) that the driver has reported since the agent started."""
    throttled: str = ""
    """Why the clocks of a device are lowered; empty: they are not."""
    disk_free: int | None = None
    """Bytes, where the agent has its folder."""
    memory_free: int | None = None
    """Bytes."""
    load: float | None = None
    """Processes that run or want to, over the last minute."""
    age: float = 0.0
    """s since the agent said so."""
    shares: bool | None = None
    """Whether it sees the daemon's file system."""
    busy: tuple[float | None, ...] = ()
    """Of each device the part of the last moments in which it computed, 0 to 1."""


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
    """One letter per device: "." free, "x" in use."""
    until: float | None = None
    """When a draining node must be empty; None: whenever its jobs have ended."""
    leaving: tuple["LeavingRecord", ...] = ()
    """What becomes of the jobs on a draining node; for administrators."""
    engine: str = ""
    """Who brought the node: "machines", "ray", "slurm"; empty: the daemon's own machine."""
    address: str = ""
    """Where other nodes reach it."""
    why: str = ""
    """Why it is draining or lost."""
    since: float | None = None
    """When it came into its state; None: unknown."""
    rack: str = ""
    domain: str = ""
    configuration: str = ""
    """Name of its configuration set."""
    labels: dict[str, str] = field(default_factory=dict)
    connected: bool | None = None
    """Whether its agent is connected; None: it needs none."""
    health: NodeHealth | None = None
    """As its agent last said; None: it says nothing."""
    trouble: str = ""
    """What is wrong with its health; empty: nothing."""
    interface: str = ""
    """Network interface of the address; empty: unknown."""
    ports: tuple[int, int] | None = None
    """First and last port at which its tasks may listen."""
    user: str = ""
    """Whom its tasks run as; empty: their submitters."""
    virtual: bool = False
    """Whether its devices are made of CPU cores."""
    tasks: tuple["NodeTaskRecord", ...] = ()
    """Tasks that run on it, of jobs that the reader may see; only where one node is asked for."""
    uplink: "UplinkRecord | None" = None
    """Its link to the network; None: said by a daemon of an older version."""


@dataclass(frozen=True, slots=True)
class UplinkRecord:
    """A node's link: what the cluster file or its agent claims, and what transfers have shown."""

    claimed: float
    """Bytes/s."""
    learnt: float | None = None
    """Bytes/s believed now; None: nothing was measured."""
    reports: int = 0
    """Latest measurements it rests on."""
    at: float | None = None
    """When the last of them came."""
    odd: bool = False
    """Whether it differs from others of its kind: jobs over several nodes are laid out by it."""


@dataclass(frozen=True, slots=True)
class NodeTaskRecord:
    """A task on a node."""

    number: int
    """Of its job."""
    job: str
    task: str
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LeavingRecord:
    """A job on a draining node, and how it leaves."""

    number: int
    name: str
    how: str
    """"ends": stays until it ends; "moves": is moved live; "restarts": continues elsewhere from its
    checkpoint; "starts over": has no checkpoint. With no room elsewhere now, "stays": until there is
    some or it ends; "queues": is checkpointed and goes back to the queue."""
    at: float | None = None
    """When it is expected to end, or has to leave; None: unknown."""
    lost: float | None = None
    """Seconds of work that would be lost."""


@dataclass(frozen=True, slots=True)
class QuotaRecord:
    """A pool's quota of one device type, and its use."""

    device_type: str
    """"*": of each type without a quota of its own, also of those that join later."""
    reservation: int = 0
    share: float = 1.0
    limit: int | None = None
    entitled: int = 0
    used: int = 0
    reservation_part: float | None = None
    """The reservation as a part of the devices there are, 0 to 1; None: it is a fixed number."""
    limit_part: float | None = None
    """The same of the limit."""


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
    allow: tuple[str, ...] = ()
    """Users, and Unix groups as "@group", who may submit; empty: all. Administrators always may."""
    max_priority: int | None = None
    """Highest priority of a user's job."""
    devices_per_user: int | None = None
    """Most devices that one user's jobs may hold."""
    policy: str = ""
    """The policy that decides about its jobs."""
    own_policy: str | None = None
    """The policy it names itself; None: it has that of the pool above."""
    budget: float | None = None
    """Device-hours that its jobs may use in a calendar month (UTC)."""
    budget_used: float = 0.0
    """Device-hours that they have used in this one."""
    own_aim: str | None = None
    """The aim it names itself for its policy; None: it has that of the pool above, if any."""


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token; its secret is shown only when it is created."""

    name: str
    user: str
    role: str
    """"admin" or "user"."""
    created: float
    used: float | None = None
    secret: str | None = None


@dataclass(frozen=True, slots=True)
class InvitationRecord:
    """A join token of agents; its text is shown only when it is created."""

    name: str
    """The beginning of its secret's digest."""
    created: float
    expires: float
    node: str = ""
    """The only node that may join with it; empty: any new one."""
    uses: int = 1
    """How many nodes may join with it."""
    used: int = 0
    used_by: str = ""
    """The last node that joined with it."""
    used_at: float | None = None
    engine: str = "machines"
    """Whose agents it is for."""
    authority: str = ""
    """Fingerprint of the authority that its text names."""
    token: str | None = None
    command: str | None = None
    """What to type on the other machine."""


@dataclass(frozen=True, slots=True)
class IdentityRecord:
    """The certificate of a node's agent."""

    node: str
    serial: str
    """Of its certificate, in hex."""
    key: str
    """SHA-256 of its public key."""
    issued: float
    expires: float
    joined: float
    engine: str = "machines"
    """Whose token it joined with."""
    previous: str = ""
    """Serial of the certificate before, good until the new one is used."""
    authority: str = ""
    """Fingerprint of the authority that signed it."""
    invitation: str = ""
    """Name of the token it joined with."""
    address: str = ""
    """Where it joined or last connected from."""
    revoked: float | None = None


@dataclass(frozen=True, slots=True)
class RotationRecord:
    """A secret that was replaced."""

    what: str
    """"jobs" or "authority"."""
    waiting: tuple[str, ...] = ()
    """Who still uses the old one: live jobs until they end, nodes until they have renewed."""


@dataclass(frozen=True, slots=True)
class ActRecord:
    """An entry of the audit log: who did what, when and from where."""

    at: float
    user: str
    act: str
    """Such as "submit", "stop" or "set pool"."""
    target: str = ""
    """What it was done to: a job, a node, a pool, a token."""
    outcome: str = "done"
    """"done" or "refused"."""
    detail: str = ""
    """What was asked for, or why it was refused."""
    address: str = ""
    """Where the request came from: an address, or the Unix user at the daemon's socket."""


@dataclass(frozen=True, slots=True)
class PolicyRecord:
    """The current policy and the available ones."""

    name: str
    policies: tuple[str, ...]
    text: str = ""
    """What it does, in a few words."""


@dataclass(frozen=True, slots=True)
class StatusRecord:
    """The daemon's status."""

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
    """Seconds of the last cycle."""
    trouble: str = ""
    """What is wrong, such as a full disk; empty if nothing."""
    counts: dict[str, int] = field(default_factory=dict)
    """Jobs by status."""
    caveats: tuple[str, ...] = ()
    """What users might expect and is not so here: limits that are not enforced, users not separated."""
    warning: str = ""
    """What its administrator should know, such as devices that do not exist; empty if nothing."""


SHIP_LIMIT = 256_000_000
"""Bytes of a folder that a job ships, before they are packed: code and small files."""
SHIP_ENTRIES = 100_000
"""Files, folders and links of such a folder."""
PACK_PART = 512 * 1024
"""Bytes of one part of a pack: in base64 it fits into a request and into a line of the protocol."""


@dataclass(frozen=True, slots=True)
class PackRecord:
    """A packed folder, as far as it has been uploaded."""

    digest: str
    size: int
    """Bytes that the daemon has."""
    complete: bool
