"""What a user asks for: a job, its roles, its gang and its locality contract."""

from dataclasses import dataclass, field
from enum import StrEnum

from muster.model.profile import ModelProfile
from muster.model.topology import Level

RESTART_SECONDS = 30.0
"""Pause charged for stopping and starting a job that gives no figure: the published evaluations of
Pollux and its successors charge 30 s (see the evaluation rules of the T4 data)."""


class Role(StrEnum):
    """What a task does: compute gradients, or hold and update parameters."""

    WORKER = "worker"
    SERVER = "server"


@dataclass(frozen=True, slots=True)
class Need:
    """What one task takes: whole devices of one node, thousandths of a core, bytes of memory."""

    devices: int = 0
    millicores: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class RoleSpec:
    """How many tasks of a role a job wants, and what each needs.

    `gang` of them are admitted, placed, preempted and killed together; the rest, up to `most`,
    start when there is room. `least` (>= gang) is what the user would rather not go below.
    """

    role: Role
    need: Need
    gang: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class StepProfile:
    """What one training step does on one worker: compute in s, bytes of gradients synchronised."""

    compute: float
    gradients: float


@dataclass(frozen=True, slots=True)
class Locality:
    """The contract: the widest level the job may span, the slowdown it tolerates (0.05 is 5 %)."""

    widest: Level = Level.CLUSTER
    max_slowdown: float | None = None


@dataclass(frozen=True, slots=True)
class Program:
    """How a job's command is run, stopped, and run again."""

    folder: str = ""
    """Where its tasks work; empty: a folder of the job's own."""
    environ: tuple[tuple[str, str], ...] = ()
    """What the user adds to the environment of every task."""
    shell: bool = False
    """Whether the command is one line for `sh -c`; else it is run as it is, word by word."""
    grace: float = 30.0
    """Seconds between SIGTERM and SIGKILL."""
    checkpoint_signal: str | None = None
    """The signal ("SIGUSR1") that asks its tasks for a checkpoint before they are stopped."""
    checkpoint_grace: float = 30.0
    """Seconds between that signal and SIGTERM, unless the task has ended by then."""
    failures: int = 0
    """How often its tasks may fail by their own fault and be started again."""
    losses: int | None = None
    """How often it may lose tasks by others' fault (nodes, preemptions) and go on; None: any number."""
    sync: str = "auto"
    """How the runtime synchronises: "auto", "ring", "sharded" or "dedicated"."""
    owners: str = "reduce"
    """What owners of parameters do: "reduce" only, or "update" as well."""


@dataclass(frozen=True, slots=True)
class Job:
    """What a user submits. Priority: higher is sooner. `device_types`: empty means any."""

    name: str
    command: tuple[str, ...] = ()
    user: str = "nobody"
    pool: str = "default"
    priority: int = 0
    preemptible: bool = True
    roles: tuple[RoleSpec, ...] = ()
    device_types: tuple[str, ...] = ()
    same_generation: bool = True
    locality: Locality = Locality()
    profile: StepProfile | None = None
    duration: float | None = None
    """Expected run time in s, where the user gives one."""
    pause: float = RESTART_SECONDS
    """Seconds of work lost when the job is stopped and started elsewhere."""
    model: ModelProfile | None = None
    """The shape of its model, where the user names one."""
    batch: int | None = None
    """Samples of one step over all workers; None: the model's own batch for each device."""
    work: float | None = None
    """All its work, where the user declares it (so many epochs), in the unit it reports progress in."""
    restarts: bool = False
    """Whether it must be stopped and started anew to change its tasks; else it is resized live."""
    application: str | None = None
    """What it trains: jobs of one application are expected to resemble each other."""
    program: Program = Program()
    number: int = 0
    """The daemon's number of it, never used twice; 0: none."""

    elastic: bool = field(init=False, repr=False, compare=False)
    """Whether it can run with more than its gang. Kept, because every cycle asks it of every job."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "elastic", any(spec.most > spec.gang for spec in self.roles))

    @property
    def workers(self) -> RoleSpec:
        """The role whose count the policy decides."""
        for spec in self.roles:  # asked so often that a generator would tell
            if spec.role is Role.WORKER:
                return spec
        raise LookupError(f"job {self.name!r} has no workers")
