"""How a job is laid out: how many tasks of each role."""

from dataclasses import dataclass

from muster.model.job import Need, Role


@dataclass(frozen=True, slots=True)
class Part:
    """So many alike tasks of one role."""

    role: Role
    count: int
    need: Need


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of a job, by role."""

    parts: tuple[Part, ...]

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
