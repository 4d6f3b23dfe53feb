"""What a user requests: a job, its roles, its gang and its locality contract."""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.model.profile import ModelProfile
from muster.model.topology import Level

LOSSES = 10
"""Losses in a row that a job may have unless its user says otherwise: with growing delays in between,
some 13 minutes in which it never ran for five."""

RESTART_SECONDS = 30.0
"""Pause charged for a restart where the job gives none: the published evaluations of Pollux and its
successors charge 30 s (see the evaluation rules of the T4 data)."""


class Role(StrEnum):
    """What a task does: compute gradients, or hold and update parameters."""

    WORKER = "worker"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Need:
    """What one task needs: whole devices of one node, thousandths of a core, bytes of memory."""

    devices: int = 0
    millicores: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """Numbers of tasks of a role, and what each needs.

    `gang` tasks are admitted, placed, preempted and killed together; the rest, up to `most`, start
    when there is room. `least` (>= gang) is the preferred minimum.
    """

    role: Role
    need: Need
    gang: int
    least: int
    most: int

    @property
    def optional(self) -> bool:
        """Whether the job can do without: the planner decides how many it gets."""
        return self.role is Role.SERVER and not self.gang


@dataclass(frozen=True, slots=True)
class StepProfile:
    """What one training step does on one worker: compute in s, bytes of gradients synchronised."""

    compute: float
    gradients: float


@dataclass(frozen=True, slots=True)
class Locality:
    """The contract: the widest level to span, and the slowdown tolerated (0.05 is 5 %)."""

    widest: Level = Level.CLUSTER
    max_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a job was submitted, as its client saw it."""

    environ: tuple[tuple[str, str], ...] = ()
    """Variables by which programs are found (PATH, VIRTUAL_ENV, ...); `Program.environ` overrides
    them."""
    executable: str = ""
    """The file that the command's first word named; empty: unknown."""
    host: str = ""


AUTO = "auto"
CONTAINER_ENGINES = ("apptainer", "enroot", "podman", "bwrap")
"""What runs containers without a daemon of its own; those before others are taken first."""


@dataclass(frozen=True, slots=True)
class Container:
    """An image that tasks run in, and what runs it."""

    image: str
    engine: str = AUTO

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that may run it, the best first: the one asked for, or all that know its kind."""
        if self.engine != AUTO:
            return (self.engine,)
        if self.image.endswith(".sif"):
            return ("apptainer",)
        if self.image.endswith(".sqsh"):
            return ("enroot", "apptainer")
        if self.image.startswith("/"):  # a folder
            return ("bwrap", "apptainer", "podman")
        return ("apptainer", "podman") if "://" in self.image else ("podman", "enroot")


@dataclass(frozen=True, slots=True)
class Program:
    """How a job's command is run, stopped and restarted."""

    folder: str = ""
    """Working folder of its tasks; empty: a folder of the job's own."""
    environ: tuple[tuple[str, str], ...] = ()
    """Added to the environment of every task."""
    shell: bool = False
    """Run the command with `sh -c`; else it is executed word by word."""
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    checkpoint_signal: str | None = None
    """Signal ("SIGUSR1") that requests a checkpoint before a stop."""
    checkpoint_grace: float = 30.0
    """Seconds between that signal and SIGTERM, unless the task ends first."""
    failures: int = 0
    """Retries after failures of its own tasks."""
    losses: int | None = None
    """Losses in a row (kills from outside, nodes) that it may restart after; None: `LOSSES`."""
    sync: str = "auto"
    """Gradient synchronisation: "auto", "ring", "sharded" or "dedicated"."""
    owners: str = "reduce"
    """What parameter owners do: "reduce" only, or "update" as well."""
    time: float | None = None
    """s a run may take, from its start; None: unlimited."""
    warn: float = 60.0
    """s before that limit at which it is warned; half the limit if that is shorter."""
    warn_signal: str | None = None
    """Signal of that warning; None: a checkpoint is requested."""
    origin: Origin = Origin()
    resume_from: str = ""
    """Checkpoints to start from: a folder, or until it is submitted a job; empty: only its own."""
    ship: str = ""
    """Digest ("sha256:...") of the packed folder that its tasks run in, `folder` being relative to
    it; empty: none."""
    checkpoint: str = ""
    """URL or absolute path of its checkpoints; empty: in a folder of the job's own."""
    at_most_once: bool = False
    """Whether a task that may still run somewhere keeps its successor from starting."""
    finish_grace: float = 600.0
    """Seconds for what its script does after a training of the runtime."""
    until: str = ""
    """When a training of the runtime ends, where its script leaves it open (see `ending`); empty: only
    the script says."""
    until_set: float = 0.0
    """When that was last changed, s, from which on it comes before the script's; 0: never."""
    notify: str = ""
    """Webhook that is told what becomes of it; empty: none."""
    notify_on: tuple[str, ...] = ()
    """What it is told of: see `Happening`."""
    slurm_env: bool = False
    """Whether its tasks get Slurm's variables, too."""
    interactive: float | None = None
    """s without activity after which a job that people attach to ends, 0: never; None: it has no
    terminal."""
    container: Container | None = None
    """What its tasks run in; None: the node itself."""


class When(StrEnum):
    """How a job must have ended for those after it to start."""

    OK = "ok"
    """It succeeded."""
    ANY = "any"
    """It ended, however."""
    FAILED = "failed"
    """It ended without success: it failed, was stopped, or was skipped itself."""

    def met_by(self, status: str) -> bool:
        """Whether a job that ended so lets those after it start."""
        return self is When.ANY or (status == "succeeded") is (self is When.OK)


@dataclass(frozen=True, slots=True)
class Dependency:
    """A job that must have ended before another starts."""

    job: str
    """As its user named it: a name, a number or `user/name`; from its submission on, its name."""
    when: When = When.OK
    number: int = 0
    """Of that job, from the submission on: its name may be reused. 0: not known yet."""
    met: bool = False
    """Whether it has ended so."""
    sweep: bool = False
    """Whether it is a sweep: that has succeeded if no member failed or was stopped."""

    @property
    def named(self) -> str:
        """`job 3 (prep)`."""
        return f"{'sweep' if self.sweep else 'job'} {self.number} ({self.job})"


@dataclass(frozen=True, slots=True)
class SweepPlace:
    """Which member of which sweep a job is."""

    sweep: int
    """The sweep's number."""
    name: str
    index: str
    """What the member is called within the sweep."""
    size: int
    """Members of the sweep."""
    params: tuple[tuple[str, str], ...] = ()
    """Its values, by name."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a user submits. Higher priority first; no `device_types` means any."""

    name: str
    command: tuple[str, ...] = ()
    user: str = "nobody"
    pool: str = "default"
    priority: int = 0
    preemptible: bool = True
    roles: tuple[RoleSpec, ...] = ()
    device_types: tuple[str, ...] = ()
    same_generation: bool = True
    """Whether it starts on devices of one generation."""
    locality: Locality = Locality()
    profile: StepProfile | None = None
    duration: float | None = None
    """Expected run time in s, if given."""
    pause: float = RESTART_SECONDS
    """Seconds of work lost by a restart."""
    model: ModelProfile | None = None
    """The shape of its model, if given."""
    batch: int | None = None
    """Samples per step over all workers; None: the model's own batch for each device."""
    work: float | None = None
    """Total work, if declared (such as epochs), in the unit of its progress reports."""
    restarts: bool = False
    """Whether it must restart to change its tasks; else it is resized live."""
    application: str | None = None
    """What it trains: jobs of one application are expected to behave alike."""
    program: Program = Program()
    number: int = 0
    """Assigned by the daemon, never reused; 0: none."""
    resumes: bool = True
    """Whether it continues from a checkpoint after a stop; else it starts over."""
    largest_batch: int | None = None
    """Samples to which a step may grow from `batch`; None: as its script says."""
    sweep: SweepPlace | None = None
    """The sweep that it is a member of; None: it was submitted by itself."""
    after: tuple[Dependency, ...] = ()
    """Jobs that must have ended before it starts."""
    labels: tuple[tuple[str, str], ...] = ()
    """Keys and values by which its user finds it, sorted by key."""
    spans: bool = True
    """Whether it may be lent idle devices of other types while it runs and is resized live."""

    elastic: bool = field(init=False, repr=False, compare=False)
    """Whether it can run with more than its gang. Stored because every cycle asks it of every job."""
    mixes: bool = field(init=False, default=False, repr=False, compare=False)
    """Whether it may have devices of several types at once."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "elastic", any(spec.most > spec.gang for spec in self.roles))
        live = self.elastic and not self.restarts and len(self.roles) == 1
        object.__setattr__(self, "mixes", not self.same_generation or (self.spans and live))

    @property
    def full_name(self) -> str:
        """`user/name`: names are unique among a user's live jobs."""
        return f"{self.user}/{self.name}"

    @property
    def workers(self) -> RoleSpec:
        """The role whose count the policy decides; `LookupError` without workers."""
        for spec in self.roles:  # hot path: a generator is measurably slower
            if spec.role is Role.WORKER:
                return spec
        raise LookupError(f"job {self.name!r} has no workers")
