"""Who holds what: the one authority that approves or rejects whole gangs, from many planners at once.

Source: Xiao's split into job planners that propose on a compact view and a small centre that says
yes or no; the optimistic check is Omega's, at the level of single bits.

Why a claim made on an old version may be approved: what makes a claim right is only that the bits it
takes are free, that the cores and memory beside them suffice, that the nodes are up, and that what it
gives back is really its own. All of that is checked here against the present books, under one lock,
in the same breath as they are changed; no step of it trusts the version. What else a planner saw may
have changed since, but can only make its choice less good, never wrong. A bit that was taken and
given back in between has no memory of it. So a whole-state version match would reject claims that
hurt nobody, and two planners on different nodes would get in each other's way.

The books do not know pools: keeping a pool inside its entitlement is the cycle's affair.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock

from muster.model.cluster import NodeState
from muster.model.placement import Claim, Slot
from muster.model.view import JobState, View


class Why(StrEnum):
    """What is wrong with one part of a claim."""

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
    """The bits of a node that cannot be had, who holds them, and why.

    Where cores or memory are short, `bits` is 0 and the holders are all the jobs on the node.
    """

    node: str
    bits: int
    holders: tuple[int, ...]
    why: Why


@dataclass(frozen=True, slots=True)
class Approved:
    """The whole gang has what it claimed, as of this version."""

    version: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """Nothing was changed; these conflicts stood in the way at this version."""

    conflicts: tuple[Conflict, ...]
    version: int


@dataclass(frozen=True, slots=True)
class LedgerView:
    """What is free on each node, by its position in the cluster, at one version."""

    version: int
    free: tuple[int, ...]
    millicores: tuple[int, ...]
    memory: tuple[int, ...]


class ClaimError(ValueError):
    """A claim made on a version that this ledger has not seen yet."""


class Ledger:
    """The books. Every method is atomic; any number of threads may call it."""

    __slots__ = (
        "_all",
        "_free",
        "_index",
        "_jobs_on",
        "_lock",
        "_memory",
        "_millicores",
        "_slots",
        "_up",
        "_version",
    )

    def __init__(self, view: View) -> None:
        """What is free as the view has it; who holds the rest is entered apart."""
        cluster = view.cluster
        self._lock = Lock()
        self._version = view.version
        self._index = cluster.index
        self._all = [cluster.configuration_of(node).all_devices for node in cluster.nodes]
        self._up = [node.state is NodeState.UP for node in cluster.nodes]
        self._free = [node.free for node in cluster.nodes]
        self._millicores = [node.millicores for node in cluster.nodes]
        self._memory = [node.memory for node in cluster.nodes]
        self._slots: dict[int, dict[Slot, None]] = {}
        # How many slots of each job are on each node: finds the holders of a conflict quickly.
        self._jobs_on: list[dict[int, int]] = [{} for _ in cluster.nodes]

    @classmethod
    def of(cls, view: View) -> "Ledger":
        """The books as the view has them."""
        ledger = cls(view)
        for state in view.jobs.values():
            ledger.enter(state)
        return ledger

    def renew(self, view: View, changed: Iterable[int]) -> None:
        """Take these nodes, by their position, as the view has them; jobs are entered apart."""
        with self._lock:
            self._version = view.version
            for at in changed:
                node = view.cluster.nodes[at]
                self._up[at] = node.state is NodeState.UP
                self._free[at] = node.free
                self._millicores[at] = node.millicores
                self._memory[at] = node.memory

    def enter(self, state: JobState) -> None:
        """Note what a job of the view holds."""
        for slot in state.held():
            self._enter(state.number, slot)

    def strike(self, state: JobState) -> None:
        """Strike out what `enter` noted."""
        for slot in state.held():
            self._strike(state.number, slot)

    def undo(self, claims: Sequence[Claim]) -> None:
        """Make as if these claims, the last ones approved, had never been."""
        with self._lock:
            for claim in reversed(claims):
                back = Claim(claim.job, 0, takes=claim.gives, gives=claim.takes)
                rooms: dict[int, _Room] = {}
                self._try_gives(back, rooms)
                self._try_takes(back, rooms)
                self._write(back, rooms)

    def snapshot(self) -> LedgerView:
        """What is free now, all of one moment. Which nodes are up, the view says."""
        with self._lock:
            return LedgerView(
                self._version, tuple(self._free), tuple(self._millicores), tuple(self._memory)
            )

    def held(self, job: int) -> tuple[Slot, ...]:
        """The slots the job holds now."""
        with self._lock:
            return tuple(self._slots.get(job, ()))

    def commit(self, claim: Claim) -> Approved | Rejected:
        """Give back and take all the claim names, or change nothing and say what stands in the way."""
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
        """Free all the job holds, if anything; the version after it."""
        with self._lock:
            slots = tuple(self._slots.get(job, ()))
            if slots:
                self._give_all(job, slots)
            return self._version

    def _give_all(self, job: int, slots: tuple[Slot, ...]) -> None:
        claim = Claim(job, self._version, takes=(), gives=slots)
        rooms: dict[int, _Room] = {}
        self._try_gives(claim, rooms)
        self._write(claim, rooms)

    def _try_gives(self, claim: Claim, rooms: "dict[int, _Room]") -> list[Conflict]:
        """Add to the rooms what the job gives back; conflicts where it is not its own to give."""
        conflicts = []
        own = dict(self._slots.get(claim.job, {})) if claim.gives else {}
        for slot in claim.gives:
            if slot in own:
                del own[slot]  # so that nothing is given back twice
                self._room(self._index[slot.node], rooms).give(slot)
            else:
                holders = self._holders(slot.node, slot.bits)
                conflicts.append(Conflict(slot.node, slot.bits, holders, Why.NOT_YOURS))
        return conflicts

    def _try_takes(self, claim: Claim, rooms: "dict[int, _Room]") -> list[Conflict]:
        """Take from the rooms what the job claims; conflicts where there is not so much."""
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
            conflicts += self._twins(claim)
        return conflicts

    def _shortages(self, slot: Slot, at: int, room: "_Room") -> list[Conflict]:
        """Which bits of a take that failed are not to be had, and what else was short."""
        there = self._all[at]
        held = slot.bits & there & ~room.before
        found = [
            Conflict(slot.node, slot.bits & ~there, (), Why.NO_DEVICE),
            Conflict(slot.node, held, self._holders(slot.node, held), Why.HELD),
            Conflict(slot.node, room.twice, (), Why.OVERLAP),
        ]
        found = [conflict for conflict in found if conflict.bits]
        everybody = tuple(sorted(self._jobs_on[at]))
        if room.millicores < 0:
            found.append(Conflict(slot.node, 0, everybody, Why.CORES))
        if room.memory < 0:
            found.append(Conflict(slot.node, 0, everybody, Why.MEMORY))
        return found

    def _twins(self, claim: Claim) -> list[Conflict]:
        """Tasks without devices that the job holds already or names twice: no bit gives them away."""
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
        """The jobs that hold any of these bits."""
        at = self._index.get(node)
        jobs = self._jobs_on[at] if at is not None else ()
        return tuple(sorted(job for job in jobs if self._bits(job, node) & bits))

    def _bits(self, job: int, node: str) -> int:
        bits = 0
        for slot in self._slots[job]:
            if slot.node == node:
                bits |= slot.bits
        return bits

    def _write(self, claim: Claim, rooms: "dict[int, _Room]") -> None:
        """Make a claim that was found good the new state of the books."""
        for at, room in rooms.items():
            self._free[at] = room.free
            self._millicores[at] = room.millicores
            self._memory[at] = room.memory
        for slot in claim.gives:
            self._strike(claim.job, slot)
        for slot in claim.takes:
            self._enter(claim.job, slot)
        self._version += 1

    def _enter(self, job: int, slot: Slot) -> None:
        self._slots.setdefault(job, {})[slot] = None
        jobs = self._jobs_on[self._index[slot.node]]
        jobs[job] = jobs.get(job, 0) + 1

    def _strike(self, job: int, slot: Slot) -> None:
        slots = self._slots[job]
        del slots[slot]
        if not slots:
            del self._slots[job]
        jobs = self._jobs_on[self._index[slot.node]]
        jobs[job] -= 1
        if not jobs[job]:
            del jobs[job]


class _Room:
    """What a node would have free if the claim were good, step by step."""

    __slots__ = ("before", "free", "memory", "millicores", "twice")

    def __init__(self, free: int, millicores: int, memory: int) -> None:
        self.free = free
        self.before = free
        self.twice = 0
        self.millicores = millicores
        self.memory = memory

    def give(self, slot: Slot) -> None:
        """Put back a slot; all gives come before any take."""
        self.free |= slot.bits
        self.before = self.free
        self.millicores += slot.need.millicores
        self.memory += slot.need.memory

    def take(self, slot: Slot) -> bool:
        """Take a slot, and say whether all of it was there."""
        short = slot.bits & ~self.free
        self.twice = short & self.before
        self.free &= ~slot.bits
        self.millicores -= slot.need.millicores
        self.memory -= slot.need.memory
        return not short and self.millicores >= 0 and self.memory >= 0
