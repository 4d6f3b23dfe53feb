"""Facts, in the past tense. The journal is a list of them; the state is their fold."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.cluster import Node
from muster.model.job import Job, RoleSpec
from muster.model.placement import Placement
from muster.model.plan import ChosenPlan
from muster.model.pool import PoolTree
from muster.model.topology import ConfigurationSet


class Outcome(StrEnum):
    """How a run ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Submitted:
    """A user submitted a job."""

    job: Job
    at: float


@dataclass(frozen=True, slots=True)
class _JobFact:
    job: int
    generation: int
    at: float


@dataclass(frozen=True, slots=True)
class _PlacementFact:
    job: int
    generation: int
    placement: Placement
    at: float
    batch: int | None = None
    plan: ChosenPlan | None = None


@dataclass(frozen=True, slots=True)
class StartBegun(_PlacementFact):
    """The gang's devices were taken and its tasks ordered."""


@dataclass(frozen=True, slots=True)
class Started(_JobFact):
    """All tasks of the gang are running."""


@dataclass(frozen=True, slots=True)
class ResizeBegun(_PlacementFact):
    """Joining tasks' devices were taken; leaving tasks still hold theirs."""


@dataclass(frozen=True, slots=True)
class Resized(_JobFact):
    """The job runs on its new set of tasks; the devices of those that left are free."""


@dataclass(frozen=True, slots=True)
class MigrateBegun(_PlacementFact):
    """The new devices were taken; the old ones are still held."""


@dataclass(frozen=True, slots=True)
class Migrated(_JobFact):
    """The job runs on its new devices; the old ones are free."""


@dataclass(frozen=True, slots=True)
class PreemptBegun(_JobFact):
    """The gang is stopping; it holds its devices until it has stopped."""


@dataclass(frozen=True, slots=True)
class Preempted(_JobFact):
    """The gang stopped and is back in the queue."""


@dataclass(frozen=True, slots=True)
class Replanned:
    """The job's tasks were told to share its work otherwise."""

    job: int
    generation: int
    plan: ChosenPlan
    at: float


@dataclass(frozen=True, slots=True)
class Requeued(_JobFact):
    """The gang, without tasks, gave its devices back and waits in the queue."""

    not_before: float = 0.0
    """It is not started before."""


@dataclass(frozen=True, slots=True)
class JobHeld:
    """A user or its sweep holds the job: it is not started until it is released."""

    job: int
    by: str
    at: float
    why: str = ""
    """Why its sweep does; empty: a user does."""


@dataclass(frozen=True, slots=True)
class JobReleased:
    """A user released a held job."""

    job: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Reprioritised:
    """A user changed the job's priority."""

    job: int
    priority: int
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class EndingChanged:
    """A user changed when the loss ends the job's training."""

    job: int
    until: str
    """Empty: it no longer does."""
    by: str
    at: float


@dataclass(frozen=True, slots=True)
class Checkpointed(_JobFact):
    """The job's state is saved up to this moment."""


@dataclass(frozen=True, slots=True)
class TasksLost:
    """Tasks outside the gang are lost; the job keeps running on this placement."""

    job: int
    generation: int
    placement: Placement
    at: float


@dataclass(frozen=True, slots=True)
class Reshaped:
    """The job's numbers of tasks were changed, by its user or because it cannot use more."""

    job: int
    roles: tuple[RoleSpec, ...]
    at: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Ended:
    """The job's tasks ended, and with them the job."""

    job: int
    generation: int
    outcome: Outcome
    at: float
    error: str = ""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The user cancelled the job, in whatever phase."""

    job: int
    at: float


@dataclass(frozen=True, slots=True)
class DependencyMet:
    """A job that this one comes after has ended as it must."""

    job: int
    parent: int
    at: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """The job ended without a start: a job that it comes after ended otherwise."""

    job: int
    parent: int
    at: float
    why: str = ""
    """Which job, and how it ended."""


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node joined the cluster, or its description changed.

    With tasks it keeps its configuration set, and with it its devices; a draining one stays draining,
    a lost one is as the fact says.
    """

    node: Node
    at: float
    configuration: ConfigurationSet | None = None
    """Its configuration set, if the cluster may not have it yet."""


@dataclass(frozen=True, slots=True)
class _NodeFact:
    node: str
    at: float


@dataclass(frozen=True, slots=True)
class NodeLost(_NodeFact):
    """A node is lost, with every task on it."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeLeft(_NodeFact):
    """A node without tasks left the cluster."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeReturned(_NodeFact):
    """A lost or draining node accepts tasks again."""


@dataclass(frozen=True, slots=True)
class NodeDraining(_NodeFact):
    """A node keeps its tasks and accepts no new ones."""

    until: float | None = None
    """When it must be empty, in s; None: whenever its jobs have ended."""
    why: str = ""
    taken: bool = False
    """Whether its engine takes it back then: nobody else can move or withdraw that."""


@dataclass(frozen=True, slots=True)
class PoolsSet:
    """An administrator replaced the pools."""

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
    | Requeued
    | JobHeld
    | JobReleased
    | Reprioritised
    | EndingChanged
    | Replanned
    | Checkpointed
    | TasksLost
    | Reshaped
    | Ended
    | Cancelled
    | DependencyMet
    | Skipped
)
NodeEvent = NodeAdded | NodeLost | NodeReturned | NodeDraining | NodeLeft
Event = Submitted | JobEvent | NodeEvent | PoolsSet
