"""What the cycle answers: one decision for each job that starts, changes or waits."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.placement import Placement
from muster.model.reason import Code, Reason


class Kind(StrEnum):
    """The five decisions."""

    START = "start"
    RESIZE = "resize"
    MIGRATE = "migrate"
    PREEMPT = "preempt"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Decision:
    """One job's outcome. `generation` is the one the job has once it is carried out."""

    kind: Kind
    job: int
    generation: int
    reason: Reason
    placement: Placement | None = None
    batch: int | None = None
    """The global batch to use from then on; None: the job's own."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A running job that goes on as it is, and why."""

    job: int
    reason: Reason


@dataclass(frozen=True, slots=True)
class Promise:
    """Devices withheld from everybody else until the job can start on them."""

    job: int
    placement: Placement
    cause: Code
    """How they come free: by reclaim, by migration, or (waiting.devices) by waiting for ends."""
    until: float
    """When the promise lapses, in s; infinity while what was cleared for it is still to come free."""
    expected: float | None = None
    """When they should be free, in s, where every end is known."""
