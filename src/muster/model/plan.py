"""How a job is laid out: tasks by role, synchronisation, and each task's share."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.job import Need, Role


class Sync(StrEnum):
    """How gradients are combined after a step."""

    RING = "ring"
    """Ring all-reduce over all devices."""
    HIERARCHICAL = "hierarchical"
    """A ring inside each node, then one ring over the nodes, then back."""
    SHARDED = "sharded"
    """Parameters owned by the workers themselves: each pushes to and pulls from every owner."""
    DEDICATED = "dedicated"
    """Parameters owned by tasks of the role `server`."""


class Overlap(StrEnum):
    """Which part of synchronisation overlaps with computing."""

    NONE = "none"
    """Everything waits for the end of the backward pass."""
    BARRIER = "barrier"
    """Gradients are sent as they become ready; once all have arrived, parameters return during the next
    forward pass (synchronous replicas of TensorFlow's parameter servers)."""
    FULL = "full"
    """Each piece is sent when ready and returns as soon as it is summed."""


@dataclass(frozen=True, slots=True)
class Part:
    """Equal tasks of one role."""

    role: Role
    count: int
    need: Need


@dataclass(frozen=True, slots=True)
class Plan:
    """A job's tasks by role, and what each does in a step."""

    parts: tuple[Part, ...]
    sync: Sync = Sync.RING
    batch: tuple[int, ...] = ()
    """Samples per step by worker index; empty: undecided."""
    owners: tuple[float, ...] = ()
    """Share of the parameters (sum 1) by owner index; empty: even."""
    overlap: Overlap = Overlap.FULL

    @property
    def devices(self) -> int:
        """Total devices."""
        return sum(part.count * part.need.devices for part in self.parts)

    @property
    def millicores(self) -> int:
        """Total thousandths of a core."""
        return sum(part.count * part.need.millicores for part in self.parts)

    @property
    def memory(self) -> int:
        """Total bytes of memory."""
        return sum(part.count * part.need.memory for part in self.parts)

    def count(self, role: Role) -> int:
        """Count the tasks of a role."""
        return sum(part.count for part in self.parts if part.role is role)


@dataclass(frozen=True, slots=True)
class ChosenPlan:
    """How the placed tasks of a job share its work, as the cycle has decided, and at what price.

    Parts of the batch and of the parameters are in the order of the placement's tasks of their role.
    """

    sync: Sync
    step: float
    """Predicted s of a step."""
    batch: tuple[int, ...] = ()
    owners: tuple[float, ...] = ()
    """Share of each owner (sum 1): the servers', or without any the workers'; empty: no owners."""
    runner_up: Sync | None = None
    runner_up_step: float | None = None
    """Predicted s of a step of the best plan that synchronises otherwise."""
    plain: float = 0.0
    """Predicted s of a step from the models alone, before corrections by what was measured."""
    turns: int = 0
    """How often tasks that stayed have been given another plan."""

    def same_way(self, other: "ChosenPlan | None") -> bool:
        """Whether tasks would do the same under another plan, whatever its price."""
        mine = (self.sync, self.batch, self.owners)
        return other is not None and mine == (other.sync, other.batch, other.owners)
