"""Each task on a node, with the bits of its devices."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from muster.model.job import Need, Role


@dataclass(frozen=True, slots=True)
class Slot:
    """One task's place: a node, the bits of its devices, and what it needs."""

    role: Role
    index: int
    node: str
    bits: int
    need: Need

    def __hash__(self) -> int:
        # Ledger and boards look up tens of thousands in a cycle; role and need hardly tell slots apart.
        return hash((self.node, self.index, self.bits))


@dataclass(frozen=True)
class Placement:
    """The slots of all tasks of a job.

    Counts are kept once worked out: every cycle asks every placement for them."""

    slots: tuple[Slot, ...]

    def bits(self) -> dict[str, int]:
        """Return the devices held on each node."""
        held: dict[str, int] = {}
        for slot in self.slots:
            held[slot.node] = held.get(slot.node, 0) | slot.bits
        return held

    def nodes(self) -> set[str]:
        """Return the nodes in use."""
        return {slot.node for slot in self.slots}

    def count(self, role: Role) -> int:
        """Count the tasks of a role."""
        # Kept by hand: `cached_property` takes a lock, which costs more than the count.
        roles: dict[Role, int] | None = self.__dict__.get("_roles")
        if roles is None:
            roles = self.__dict__["_roles"] = {}
            for slot in self.slots:
                roles[slot.role] = roles.get(slot.role, 0) + 1
        return roles.get(role, 0)

    @cached_property
    def devices(self) -> int:
        """All devices held."""
        return sum([slot.bits.bit_count() for slot in self.slots])

    def with_slots(self, slots: Iterable[Slot]) -> "Placement":
        """Return this placement with more tasks."""
        return Placement((*self.slots, *slots))

    def without(self, slots: Iterable[Slot]) -> "Placement":
        """Return this placement without some tasks."""
        gone = set(slots)
        return Placement(tuple(slot for slot in self.slots if slot not in gone))


@dataclass(frozen=True, slots=True)
class Claim:
    """What a planner proposes for one gang: give back and take slots, atomically."""

    job: int
    version: int
    takes: tuple[Slot, ...]
    gives: tuple[Slot, ...] = ()
