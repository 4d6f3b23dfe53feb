"""What a cycle returns: a decision for each job that starts, changes or waits."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.placement import Placement
from muster.model.plan import ChosenPlan
from muster.model.reason import Code, Reason


class Kind(StrEnum):
    """The six decisions."""

    START = "start"
    RESIZE = "resize"
    MIGRATE = "migrate"
    PREEMPT = "preempt"
    WAIT = "wait"
    REPLAN = "replan"
    """It keeps its tasks, which share the work otherwise."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do with a job. `generation` is the job's once this is carried out."""

    kind: Kind
    job: int
    generation: int
    reason: Reason
    placement: Placement | None = None
    batch: int | None = None
    """Global batch to use from then on; None: the job's own."""
    plan: ChosenPlan | None = None
    """How its tasks share the work; None: they decide by themselves."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A running job that is left unchanged, and why."""

    job: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Promise:
    """Devices withheld from other jobs until this one can start on them."""

    job: int
    placement: Placement
    cause: Code
    """How they come free: reclaim, migration, or (waiting.devices) jobs ending."""
    until: float
    """When the promise lapses, in s; infinity while devices cleared for it are still held."""
    expected: float | None = None
    """When they should be free, in s, if every end is known."""
