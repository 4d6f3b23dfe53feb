"""One process of a job, as an executor sees it: orders, and reports."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.event import (
    Event,
    NodeAdded,
    NodeDraining,
    NodeLeft,
    NodeLost,
    NodeReturned,
    PoolsSet,
    Submitted,
)
from muster.model.job import Container, Role
from muster.model.placement import Slot
from muster.model.sweep import (
    SweepDependencyMet,
    SweepEnded,
    SweepFact,
    SweepResized,
    SweepSkipped,
    SweepStopped,
    SweepSubmitted,
)

LEASE = 60.0
"""s without word from the daemon after which a node kills a task that shall run at most once: twice as
long as it takes to give a silent node up."""
WORK = "work"
"""The folder in a job's own in which its tasks run, if they have no other."""
_WHOLE = "(0|[1-9][0-9]{0,17})"
_TASK_ID = re.compile(rf"{_WHOLE}/{_WHOLE}/({'|'.join(Role)})-{_WHOLE}(?:\.([1-9][0-9]{{0,17}}))?")
"""As `TaskId` is printed; the same id has one spelling."""


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """Identifies a task; never reused."""

    number: int
    """`Job.number`."""
    generation: int
    """The job's, when the task was ordered."""
    role: Role
    index: int
    """Of its name. Jobs of the runtime never reuse one: a replacement gets the next."""
    attempt: int = 0
    """Restarts under the same name."""

    @property
    def name(self) -> str:
        """The task's only name: in its environment, log, messages, lists and metrics."""
        return f"{self.role}-{self.index}"

    def __str__(self) -> str:
        again = f".{self.attempt}" if self.attempt else ""
        return f"{self.number}/{self.generation}/{self.name}{again}"

    @staticmethod
    def parse(text: str) -> "TaskId":
        """Read what `str` wrote; `ValueError` for anything else."""
        found = _TASK_ID.fullmatch(text)
        if found is None:
            raise ValueError(f"{text[:80]!r} is not the id of a task")
        number, generation, role, index, attempt = found.groups()
        return TaskId(int(number), int(generation), Role(role), int(index), int(attempt or 0))


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A process to run on a named node with named devices."""

    id: TaskId
    node: str
    devices: tuple[int, ...]
    """Device numbers on that node, as the node's own tools count them."""
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    """Its whole environment: nothing is inherited from the executor."""
    folder: str
    """Working folder."""
    log: str
    """Log file below the log folder: `<job>/<generation>/<task>.log`. Attempts append to it."""
    own_folder: bool = False
    """Whether the folder is the job's own, to be created if missing."""
    memory: int = 0
    """Bytes it may use; 0: no limit."""
    millicores: int = 0
    """Thousandths of a core it may use; 0: no limit."""
    user: str = ""
    """The Unix user to run it as; empty: the executor's own."""
    private: str = ""
    """A folder to create for that user only; empty: none."""
    ports: tuple[int, ...] = ()
    """Ports that the task will bind. If another process has one, the task is not started or, if it has
    failed, not at fault: its report has no code and names the port."""
    lease: float = 0.0
    """s without word from the daemon after which its node kills it (at most once); 0: never."""
    ship: str = ""
    """Content hash of the packed folder that it runs in; empty: its folder is already there."""
    terminal: float | None = None
    """s without activity after which a task on a terminal is ended, 0: never; None: it has no
    terminal."""
    container: Container | None = None
    """What it runs in; None: the node itself."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """The process is running."""

    task: TaskId
    at: float
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class TaskExited:
    """The process and its whole process group are gone."""

    task: TaskId
    at: float
    code: int | None = None
    signal: int | None = None
    """The signal that ended it; without code and signal, how it ended is unknown."""
    error: str = ""
    """Why it could not be started or was given up."""
    begun: bool = True
    """Whether it ever ran."""
    oom: bool = False
    """Whether the kernel killed it, or a part of it, for want of memory."""
    memory: int = 0
    """Bytes it was limited to; 0: no limit."""
    port: int = 0
    """A port of its order that another process has; 0: none is known."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """Bytes of a log from `offset`, and where the next part begins."""

    data: bytes
    offset: int
    """Where the data begins: later than requested if the log was trimmed."""
    next: int
    """Offset to continue from; counts all bytes ever written, trimmed ones included."""


@dataclass(frozen=True, slots=True)
class TaskOrdered:
    """A task is about to be ordered, for this slot of its job."""

    job: int
    task: TaskId
    slot: Slot
    at: float


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task is gone, and its job has accounted for it."""

    job: int
    exited: TaskExited
    at: float
    tail: str = ""
    """The last lines it printed, if it failed."""
    fault: bool = False
    """Counts against the job's budget of failures."""
    lost: bool = False
    """Counts against its budget of losses."""


@dataclass(frozen=True, slots=True)
class RuntimeSeen:
    """A task of the job has contacted the coordinator: the job can be resized live."""

    job: int
    at: float


@dataclass(frozen=True, slots=True)
class ConvergenceSeen:
    """The loss of the job has stopped falling. It goes on until its own end, or its user stops it."""

    job: int
    at: float
    text: str
    """The loss, and since when, in words."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The user cancelled the job; it ends once its tasks are gone."""

    job: int
    at: float
    force: bool = False
    """Kill its tasks at once."""
    why: str = ""
    """Why its sweep stops it; empty: its user does."""


@dataclass(frozen=True, slots=True)
class RequeueAsked:
    """A user sent the job back to the queue; its preemption follows."""

    job: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class RunBroken:
    """A gang that needs all its tasks has lost one, and has none left. Counts once."""

    job: int
    at: float
    cause: str
    """What died first, and how, with the last lines of its log."""
    fault: bool = False
    """Counts against the budget of failures, else of losses."""
    exit_code: int | None = None
    delay: float = 0.0
    """s until it restarts; 0: it does not, its budget is used up."""


@dataclass(frozen=True, slots=True)
class GangStopping:
    """A gang's tasks are stopping or ending, for a reason that no other fact records."""

    job: int
    goal: str
    """One of `daemon.gang.transitions.Goal`."""
    at: float
    error: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A cycle decided about a job, or found a new reason why it waits."""

    job: int
    kind: str
    """One of `model.decision.Kind`."""
    code: str
    """One of `model.reason.Code`."""
    text: str
    """The reason as text, with its figures."""
    at: float
    served: int = 0
    """The job that gets what this one gives up; 0: none."""
    given: int = 0
    """Devices of it that this job gets."""
    cost: float | None = None
    gain: float | None = None
    speed: float | None = None
    """As in `model.reason.Reason`."""


@dataclass(frozen=True, slots=True)
class PolicySet:
    """An administrator changed the policy."""

    policy: str
    at: float


TaskFact = (
    TaskOrdered
    | TaskEnded
    | RuntimeSeen
    | ConvergenceSeen
    | StopAsked
    | RequeueAsked
    | RunBroken
    | GangStopping
    | Decided
    | PolicySet
)
"""Facts of the journal beside those of `model.event`; the view does not depend on them."""

Fact = Event | TaskFact | SweepFact
"""A fact of the journal."""


def job_of(fact: Fact) -> int | None:
    """Return the number of the job or sweep a fact is about; None: neither."""
    match fact:
        case Submitted(job=job):
            return job.number
        case NodeAdded() | NodeLost() | NodeReturned() | NodeDraining() | NodeLeft():
            return None
        case PoolsSet() | PolicySet():
            return None
        case SweepSubmitted(sweep=sweep):
            return sweep.number
        case SweepResized() | SweepStopped() | SweepDependencyMet() | SweepSkipped() | SweepEnded():
            return fact.sweep
        case _:
            return fact.job
