"""Facts, in the past tense. The journal is a list of these; the state is their fold."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.cluster import Node
from muster.model.job import Job, RoleSpec
from muster.model.placement import Placement
from muster.model.pool import PoolTree


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A user handed over a job."""

    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class StartBegun:
    """The devices of a gang were taken and its tasks ordered."""

    job: int
    generation: int
    placement: Placement
    at: float
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """All tasks of the gang run."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class ResizeBegun:
    """Joiners' devices were taken; leavers still hold theirs."""

    job: int
    generation: int
    placement: Placement
    at: float
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Resized:
    """The job runs on its new set of tasks; leavers' devices are free."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class MigrateBegun:
    """The new devices were taken; the old ones are still held."""

    job: int
    generation: int
    placement: Placement
    at: float
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class Migrated:
    """The job runs on its new devices; the old ones are free."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class PreemptBegun:
    """The gang was told to stop; it holds its devices until it has."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class Preempted:
    """The gang has stopped and waits again."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The job's state is safe up to this moment."""

    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class TasksLost:
    """Some tasks are gone for good; the rest of the gang, which is whole, goes on on this placement."""

    job: int
    generation: int
    placement: Placement
    at: float


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Its user asks for other numbers of tasks."""

    job: int
    roles: tuple[RoleSpec, ...]
    at: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's tasks are done: it is over."""

    job: int
    generation: int
    outcome: Outcome
    at: float
    error: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Its user wants the job no more, whatever it is doing."""

    job: int
    at: float


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node joined the cluster."""

    node: Node
    at: float


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone, and every task on it."""

    node: str
    at: float


@dataclass(frozen=True, slots=True)
class NodeReturned:
    """A lost or draining node takes tasks again."""

    node: str
    at: float


@dataclass(frozen=True, slots=True)
class NodeDraining:
    """A node keeps its tasks and takes no new ones."""

    node: str
    at: float


@dataclass(frozen=True, slots=True)
class PoolsSet:
    """An administrator divided the cluster anew."""

    pools: PoolTree
    at: float


JobEvent = (
    StartBegun
    | Started
    | ResizeBegun
    | Resized
    | MigrateBegun
    | Migrated
    | PreemptBegun
    | Preempted
    | Checkpointed
    | TasksLost
    | Reshaped
    | Ended
    | Cancelled
)
NodeEvent = NodeAdded | NodeLost | NodeReturned | NodeDraining
Event = Submitted | JobEvent | NodeEvent | PoolsSet
