"""How a job is laid out: how many tasks of each role, how they synchronise, who takes what part."""

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
    """What of a synchronisation runs beside the computing."""

    NONE = "none"
    """Everything waits for the end of the backward pass."""
    BARRIER = "barrier"
    """Gradients go as they become ready; after all have arrived, parameters come during the next
    forward pass (synchronous replicas of TensorFlow's parameter servers)."""
    FULL = "full"
    """Each piece goes when it is ready and comes back as soon as it is summed."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many alike tasks of one role."""

    role: Role
    count: int
    need: Need


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a job, by role, and what each of them does in a step."""

    parts: tuple[Part, ...]
    sync: Sync = Sync.RING
    batch: tuple[int, ...] = ()
    """Samples of each worker in one step, by its index; empty: not decided."""
    owners: tuple[float, ...] = ()
    """Share of the parameters (sum 1) of each owner, by its index; empty: even."""
    overlap: Overlap = Overlap.FULL

    @property
    def devices(self) -> int:
        """All devices the plan takes."""
        return sum(part.count * part.need.devices for part in self.parts)

    @property
    def millicores(self) -> int:
        """All thousandths of a core the plan takes."""
        return sum(part.count * part.need.millicores for part in self.parts)

    @property
    def memory(self) -> int:
        """All bytes of memory the plan takes."""
        return sum(part.count * part.need.memory for part in self.parts)

    def count(self, role: Role) -> int:
        """How many tasks of a role."""
        return sum(part.count for part in self.parts if part.role is role)
