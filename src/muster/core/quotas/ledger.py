"""Who holds what: the one authority that approves or rejects the claims of many planners.

Source: Xiao's split into job planners that propose on a compact view and a small centre that says
yes or no; the optimistic check is Omega's, at the level of single bits.

A claim made on an old version may still be approved. It is right if the bits it takes are free, cores
and memory suffice, the nodes are up, and what it gives back is its own. All of that is checked against
the current state, atomically with the change, and nothing relies on the version. Other changes since
can make a planner's choice worse, never wrong. Matching the whole version would reject harmless claims,
and planners on different nodes would conflict.

The ledger does not know pools: the cycle keeps them within their entitlement.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from muster.model.cluster import NodeState
from muster.model.placement import Claim, Slot
from muster.model.view import JobState, View


class Why(StrEnum):
    """What is wrong with a part of a claim."""

    HELD = "held"
    OVERLAP = "overlap"
    NO_DEVICE = "no such device"
    CORES = "cores"
    MEMORY = "memory"
    NOT_UP = "node not up"
    NO_NODE = "no such node"
    NOT_YOURS = "not held by the job"
    TWICE = "task twice"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Unavailable bits of a node, their holders, and why.

    If cores or memory are short, `bits` is 0 and the holders are all jobs on the node.
    """

    node: str
    bits: int
    holders: tuple[int, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Approved:
    """The whole claim is granted, as of this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was changed, because of these conflicts at this version."""

    conflicts: tuple[Conflict, ...]
    version: int


@dataclass(frozen=True, slots=True)
class LedgerView:
    """Free resources by node position, at one version."""

    version: int
    free: tuple[int, ...]
    millicores: tuple[int, ...]
    memory: tuple[int, ...]


class ClaimError(ValueError):
    """A claim made on a version this ledger has not reached."""


class Ledger:
    """Free resources and holders. Thread-safe; every method is atomic."""

    def __init__(self, view: View) -> None:
        """Take what is free from the view; holders are added by `enter`."""
        cluster = view.cluster
        self._lock = Lock()
        self._version = view.version
        self._index = cluster.index
        self._all = [cluster.configuration_of(node).all_devices for node in cluster.nodes]
        self._up = [node.state is NodeState.UP for node in cluster.nodes]
        self._free = [node.free for node in cluster.nodes]
        self._millicores = [node.millicores for node in cluster.nodes]
        self._memory = [node.memory for node in cluster.nodes]
        self._slots: dict[int, tuple[Slot, ...]] = {}
        # Slots of each job on each node: finds the holders of a conflict quickly.
        self._jobs_on: list[dict[int, int]] = [{} for _ in cluster.nodes]

    @classmethod
    def of(cls, view: View) -> "Ledger":
        """Return the ledger of a view, holders included."""
        ledger = cls(view)
        for state in view.jobs.values():
            ledger.enter(state)
        return ledger

    def renew(self, view: View, changed: Iterable[int]) -> None:
        """Reload these nodes, by position, from the view; jobs are entered separately."""
        with self._lock:
            self._version = view.version
            for at in changed:
                node = view.cluster.nodes[at]
                self._up[at] = node.state is NodeState.UP
                self._free[at] = node.free
                self._millicores[at] = node.millicores
                self._memory[at] = node.memory

    def enter(self, state: JobState) -> None:
        """Add what a job of the view holds."""
        self._enter(state.number, state.held())

    def strike(self, state: JobState) -> None:
        """Remove what `enter` added."""
        self._strike(state.number, state.held())

    def undo(self, claims: Sequence[Claim]) -> None:
        """Undo these claims, which must be the last ones approved."""
        with self._lock:
            for claim in reversed(claims):
                for slot in claim.takes:  # as they were approved, nothing is left to check
                    at = self._index[slot.node]
                    self._free[at] |= slot.bits
                    self._millicores[at] += slot.need.millicores
                    self._memory[at] += slot.need.memory
                for slot in claim.gives:
                    at = self._index[slot.node]
                    self._free[at] &= ~slot.bits
                    self._millicores[at] -= slot.need.millicores
                    self._memory[at] -= slot.need.memory
                self._strike(claim.job, claim.takes)
                self._enter(claim.job, claim.gives)
                self._version += 1

    def snapshot(self) -> LedgerView:
        """Return what is free now, consistently. Which nodes are up is in the view."""
        with self._lock:
            return LedgerView(
                self._version, tuple(self._free), tuple(self._millicores), tuple(self._memory)
            )

    def held(self, job: int) -> tuple[Slot, ...]:
        """Return the slots the job holds now."""
        with self._lock:
            return self._slots.get(job, ())

    def jobs_on(self, node: str) -> tuple[int, ...]:
        """Return the jobs that hold something on a node."""
        with self._lock:
            at = self._index.get(node)
            return () if at is None else tuple(self._jobs_on[at])

    def commit(self, claim: Claim) -> Approved | Rejected:
        """Apply the claim as a whole, or change nothing and return the conflicts."""
        with self._lock:
            if claim.version > self._version:
                raise ClaimError(
                    f"job {claim.job} claims on version {claim.version}; "
                    f"the ledger is at {self._version}"
                )
            rooms: dict[int, _Room] = {}
            conflicts = self._try_gives(claim, rooms) or self._try_takes(claim, rooms)
            if conflicts:
                return Rejected(tuple(dict.fromkeys(conflicts)), self._version)
            self._write(claim, rooms)
            return Approved(self._version)

    def release(self, job: int) -> int:
        """Free all the job holds; return the version after it."""
        with self._lock:
            if slots := self._slots.get(job):
                claim = Claim(job, self._version, takes=(), gives=slots)
                rooms: dict[int, _Room] = {}
                self._try_gives(claim, rooms)
                self._write(claim, rooms)
            return self._version

    def _try_gives(self, claim: Claim, rooms: "dict[int, _Room]") -> list[Conflict]:
        """Add what the job gives back to the rooms; conflicts if it does not hold it."""
        conflicts = []
        own = set(self._slots.get(claim.job, ())) if claim.gives else set()
        for slot in claim.gives:
            if slot in own:
                own.remove(slot)  # nothing is given back twice
                self._room(self._index[slot.node], rooms).give(slot)
            else:
                holders = self._holders(slot.node, slot.bits)
                conflicts.append(Conflict(slot.node, slot.bits, holders, Why.NOT_YOURS))
        return conflicts

    def _try_takes(self, claim: Claim, rooms: "dict[int, _Room]") -> list[Conflict]:
        """Take what the job claims from the rooms; conflicts if it is not free."""
        conflicts: list[Conflict] = []
        for slot in claim.takes:
            at = self._index.get(slot.node)
            if at is None:
                conflicts.append(Conflict(slot.node, slot.bits, (), Why.NO_NODE))
            elif not self._up[at]:
                conflicts.append(Conflict(slot.node, slot.bits, (), Why.NOT_UP))
            else:
                room = self._room(at, rooms)
                if not room.take(slot):
                    conflicts += self._shortages(slot, at, room)
        if not all(slot.bits for slot in claim.takes):
            conflicts += self._duplicates(claim)
        return conflicts

    def _shortages(self, slot: Slot, at: int, room: "_Room") -> list[Conflict]:
        """Return which bits of a failed take are unavailable, and what else was short."""
        there = self._all[at]
        held = slot.bits & there & ~room.before
        found = [
            Conflict(slot.node, slot.bits & ~there, (), Why.NO_DEVICE),
            Conflict(slot.node, held, self._holders(slot.node, held), Why.HELD),
            Conflict(slot.node, room.twice, (), Why.OVERLAP),
        ]
        found = [conflict for conflict in found if conflict.bits]
        everyone = tuple(sorted(self._jobs_on[at]))
        if room.millicores < 0:
            found.append(Conflict(slot.node, 0, everyone, Why.CORES))
        if room.memory < 0:
            found.append(Conflict(slot.node, 0, everyone, Why.MEMORY))
        return found

    def _duplicates(self, claim: Claim) -> list[Conflict]:
        """Return tasks without devices that are held already or claimed twice: no bit shows it."""
        seen = set(self._slots.get(claim.job, ())) - set(claim.gives)
        conflicts = []
        for slot in claim.takes:
            if not slot.bits and slot in seen:
                conflicts.append(Conflict(slot.node, 0, (claim.job,), Why.TWICE))
            seen.add(slot)
        return conflicts

    def _room(self, at: int, rooms: "dict[int, _Room]") -> "_Room":
        if at not in rooms:
            rooms[at] = _Room(self._free[at], self._millicores[at], self._memory[at])
        return rooms[at]

    def _holders(self, node: str, bits: int) -> tuple[int, ...]:
        """Return the jobs that hold any of these bits."""
        at = self._index.get(node)
        jobs = self._jobs_on[at] if at is not None else ()
        return tuple(sorted(job for job in jobs if self._holds(job, node, bits)))

    def _holds(self, job: int, node: str, bits: int) -> bool:
        return any(slot.node == node and slot.bits & bits for slot in self._slots[job])

    def _write(self, claim: Claim, rooms: "dict[int, _Room]") -> None:
        """Apply a valid claim."""
        for at, room in rooms.items():
            self._free[at] = room.free
            self._millicores[at] = room.millicores
            self._memory[at] = room.memory
        self._strike(claim.job, claim.gives)
        self._enter(claim.job, claim.takes)
        self._version += 1

    def _enter(self, job: int, slots: tuple[Slot, ...]) -> None:
        if not slots:
            return
        held, index, jobs_on = self._slots.get(job), self._index, self._jobs_on
        self._slots[job] = slots if held is None else (*held, *slots)
        for slot in slots:
            jobs = jobs_on[index[slot.node]]
            jobs[job] = jobs.get(job, 0) + 1

    def _strike(self, job: int, slots: tuple[Slot, ...]) -> None:
        if not slots:
            return
        held = self._slots[job]
        gone = set() if held == slots else set(slots)  # most give back all that they hold
        left = tuple([slot for slot in held if slot not in gone]) if gone else ()
        if left:
            self._slots[job] = left
        else:
            del self._slots[job]
        for slot in slots:
            jobs = self._jobs_on[self._index[slot.node]]
            jobs[job] -= 1
            if not jobs[job]:
                del jobs[job]


class _Room:
    """What a node would have free after each step of a claim."""

    __slots__ = ("before", "free", "memory", "millicores", "twice")

    def __init__(self, free: int, millicores: int, memory: int) -> None:
        self.free = free
        self.before = free
        self.twice = 0
        self.millicores = millicores
        self.memory = memory

    def give(self, slot: Slot) -> None:
        """Return a slot; all gives come before any take."""
        self.free |= slot.bits
        self.before = self.free
        self.millicores += slot.need.millicores
        self.memory += slot.need.memory

    def take(self, slot: Slot) -> bool:
        """Take a slot; return whether all of it was free."""
        short = slot.bits & ~self.free
        self.twice = short & self.before
        self.free &= ~slot.bits
        self.millicores -= slot.need.millicores
        self.memory -= slot.need.memory
        return not short and self.millicores >= 0 and self.memory >= 0
