"""The decisions of a cycle so far."""

from dataclasses import dataclass, field

from muster.model.decision import Promise
from muster.model.placement import Placement
from muster.model.reason import Code, Reason


@dataclass(frozen=True, slots=True)
class Change:
    """A job's next placement, and why."""

    placement: Placement
    reason: Reason
    batch: int | None = None


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """A migration: beneficiary, moved jobs, cost and gain in device-seconds, fragmentation."""

    job: int
    moved: tuple[int, ...]
    cost: float
    gain: float
    fragmentation_before: float
    fragmentation_after: float


@dataclass(slots=True)
class CycleOutcome:
    """Decisions so far, by job."""

    starts: dict[int, Change] = field(default_factory=dict)
    resizes: dict[int, Change] = field(default_factory=dict)
    moves: dict[int, Change] = field(default_factory=dict)
    stops: dict[int, Reason] = field(default_factory=dict)
    obstacles: dict[int, Code] = field(default_factory=dict)
    """What first stopped each waiting job."""
    promises: dict[int, Promise] = field(default_factory=dict)
    migrations: list[MigrationReport] = field(default_factory=list)
