"""One process of a job as an executor knows it: what it is told to run, and what it reports."""

from collections.abc import Mapping
from dataclasses import dataclass

from muster.model.event import (
    Event,
    NodeAdded,
    NodeDraining,
    NodeLost,
    NodeReturned,
    PoolsSet,
    Submitted,
)
from muster.model.job import Role
from muster.model.placement import Slot


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """A task that was once ordered: never used twice."""

    number: int
    """Of its job (`Job.number`)."""
    generation: int
    """Of its job when it was ordered."""
    role: Role
    index: int
    """Of its name. A job of the runtime never uses one again: a replacement has the next."""
    attempt: int = 0
    """Restarts under the same name."""

    @property
    def name(self) -> str:
        """The task's only name: in its environment, log, messages, lists and metrics."""
        return f"{self.role}-{self.index}"

    def __str__(self) -> str:
        again = f".{self.attempt}" if self.attempt else ""
        return f"{self.number}/{self.generation}/{self.name}{again}"


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A process to run on a named node with named devices."""

    id: TaskId
    node: str
    devices: tuple[int, ...]
    """The numbers of its devices on that node, as the node's own tools count them."""
    argv: tuple[str, ...]
    environ: Mapping[str, str]
    """All of its environment: nothing of the manager's comes through."""
    folder: str
    """Where it works; made if it is not there."""
    log: str
    """Where its output goes, below the executor's folder of logs: `<job>/<generation>/<task>.log`.
    It is appended to: attempts follow each other."""


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """The process runs."""

    task: TaskId
    at: float
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class TaskExited:
    """The process is gone, and its whole process group with it."""

    task: TaskId
    at: float
    code: int | None = None
    signal: int | None = None
    """The signal that ended it; without code and signal nobody knows how it ended."""
    error: str = ""
    """Why it could not be started or was given up, in words."""
    begun: bool = True
    """Whether it has ever run."""


@dataclass(frozen=True, slots=True)
class LogPiece:
    """A part of a log: the bytes from `offset`, and where the next part begins."""

    data: bytes
    offset: int
    """Where the data begins: later than was asked if the log was trimmed meanwhile."""
    next: int
    """Pass it to go on reading; an offset counts bytes ever written, trimmed ones included."""


@dataclass(frozen=True, slots=True)
class TaskOrdered:
    """A task is about to be ordered, for this place of its job."""

    job: int
    task: TaskId
    slot: Slot
    at: float


@dataclass(frozen=True, slots=True)
class TaskEnded:
    """A task is gone, and the job it was of has taken note."""

    job: int
    exited: TaskExited
    at: float
    tail: str = ""
    """The last lines it printed, where it failed."""
    fault: bool = False
    """Whether it counts against the job's budget of failures."""
    lost: bool = False
    """Whether it counts against its budget of losses."""


@dataclass(frozen=True, slots=True)
class RuntimeSeen:
    """A task of the job has spoken to the coordinator: the job can change its tasks while it trains."""

    job: int
    at: float


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Its user wants the job no more: it is cancelled once its tasks are gone."""

    job: int
    at: float


@dataclass(frozen=True, slots=True)
class GangStopping:
    """A gang's tasks are being stopped, or left to end, for a reason that no other fact tells."""

    job: int
    goal: str
    """One of `daemon.gang.transitions.Goal`."""
    at: float
    error: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Decided:
    """A cycle decided something about a job, or found another reason why it waits."""

    job: int
    kind: str
    """One of `model.decision.Kind`."""
    code: str
    """One of `model.reason.Code`."""
    text: str
    """The reason in words, with its figures."""
    at: float


@dataclass(frozen=True, slots=True)
class PolicySet:
    """An administrator chose another policy."""

    policy: str
    at: float


TaskFact = TaskOrdered | TaskEnded | RuntimeSeen | StopAsked | GangStopping | Decided | PolicySet
"""Facts that the journal holds beside those of `model.event`: the view does not depend on them."""

Fact = Event | TaskFact
"""What the journal holds."""


def job_of(fact: Fact) -> int | None:
    """The number of the job that a fact is about; None: it is about none."""
    match fact:
        case Submitted(job=job):
            return job.number
        case NodeAdded() | NodeLost() | NodeReturned() | NodeDraining() | PoolsSet() | PolicySet():
            return None
        case _:
            return fact.job
