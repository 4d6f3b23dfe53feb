"""The cycle of one cycle: what is free, who may take how much, and what has been decided so far.

Everything mutable in deciding is here, made from the view and thrown away with the cycle. The other
modules of `core` read it and act through its few verbs: start, shrink, stop, move, promise.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from muster.core.cycle.options import Option
from muster.core.cycle.outcome import Change, CycleOutcome
from muster.core.cycle.standing import Standing
from muster.core.quotas.demand import held_by_type
from muster.core.quotas.ledger import Rejected
from muster.model.decision import Promise
from muster.model.job import Job, Role
from muster.model.placement import Claim, Placement, Slot
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.adaptive import Mood, Pressure, settle
from muster.place.board import Board, Withheld
from muster.place.clear import Candidate
from muster.place.even import even
from muster.place.pack import pack
from muster.place.request import Request, Strategy
from muster.place.roomy import roomy
from muster.place.spread import spread
from muster.policy.base import Allocation

Victim = tuple[int, float, int, Candidate]
"""A gang that may be preempted: priority, cost per device, number, and itself; sorts in that order."""

STRATEGIES: Mapping[str, Strategy] = {"pack": pack, "spread": spread, "even": even, "roomy": roomy}


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator may set."""

    strategy: str = "adaptive"
    """One of `STRATEGIES`, or adaptive: spread or pack by the mood, parameter servers evenly."""
    patience: float = 600.0
    """s a job lets younger ones pass before devices are promised to it: Optimus' interval, the
    time over which a queue is worth reordering."""
    migrate: bool = True
    """Whether small jobs may be moved to make room for a gang."""
    grace: float = 30.0
    """s a gang gets to stop or shrink; a promise that does not help once it has lapses after twice
    that."""


class LedgerRefusedError(AssertionError):
    """The cycle claimed what is not free: a fault of this program, never of its input."""


class CycleState:
    """Working state of one cycle."""

    def __init__(
        self,
        standing: Standing,
        entitled: Entitlements,
        allocations: Iterable[Allocation],
        now: float,
        mood: Mood,
        rules: Rules,
    ) -> None:
        self.standing = standing
        self.view = standing.view
        self.now = now
        self.rules = rules
        self.options = standing.options
        self._board: Board | None = None
        self.quotas = standing.quotas(entitled)
        self.allocations = {each.job: each for each in allocations}
        self.outcome = CycleOutcome()
        self.unserved: dict[int, Promise] = {}
        """Promises of earlier cycles that keep something free and whose job has not had its turn."""
        self.hopeless: set[tuple[object, ...]] = set()
        """Ways to make room that failed for one job and would for its likes, this cycle."""
        self.turned_away: dict[tuple[object, ...], Code] = {}
        """Jobs for which no room was found or could be made, by what they have in common, and what
        stopped them: the younger ones of their kind fare no better until something changes."""
        self.too_little: dict[Request, float] = {}
        """The gain with which no migration paid, in device-seconds."""
        self.mood = settle(mood, self._pressure(), now)
        self._later: Board | None = None
        self._claims: list[Claim] = []
        self._taken: list[Slot] = []
        self._given: list[Slot] = []
        self._withheld: dict[int, list[tuple[Board, tuple[Withheld, ...]]]] = {}
        self._counted: set[int] = set()
        """Jobs whose promise is in the books; before a job's turn it is not."""
        self._by_pool: dict[tuple[str, str], list[JobState]] | None = None
        self._grown: dict[tuple[str, str], list[JobState]] | None = None
        self._victims: dict[tuple[str, str], deque[Victim]] = {}
        self._reserved: set[int] = set()
        self._leaving: tuple[Slot, ...] | None = None
        self._leaving_bits: dict[str, int] | None = None
        self._failed: set[Request] = set()
        self._failed_at = standing.board.version

    # What may be asked of it

    @property
    def board(self) -> Board:
        """What is free, less what this cycle has given: a copy, made when somebody asks."""
        if self._board is None:
            self._board = self.standing.board.copy()
        return self._board

    def short_of_room(self, job: Job, workers: int) -> Iterator[Option]:
        """The options on which nothing but room is lacking: the pool could take the job there."""
        for option in self.options.of(job):
            types, request = self.options.types(option), self.options.request(job, workers, option)
            if len(types) == 1 and request.plan.devices:
                blocked = self.quotas.verdict(job, {types[0]: request.plan.devices}) is not None
            else:
                blocked = self.place(job, request) is not None  # so it was the books that objected
            if not blocked:
                yield option

    def likes(self, job: Job, workers: int) -> tuple[object, ...]:
        """What jobs have in common that are served alike. By identity, which is quick: jobs that are
        alike but do not share these objects are only served one by one. One whose duration is known
        may be let past others, and is like nobody."""
        alone = job.number if job.duration is not None else None
        own = (id(job.roles), id(job.locality), id(job.profile), id(job.model), job.batch)
        return (*own, job.pool, job.preemptible, job.device_types, job.same_generation, workers, alone)

    def least(self, job: Job) -> int:
        """Workers the job may be shrunk to. One that the policy leaves out keeps what it has, but
        that is no shield: what is asked back may still be taken."""
        allocation = self.allocations.get(job.number)
        return allocation.least if allocation else job.workers.gang

    def place(self, job: Job, request: Request) -> Placement | None:
        """The strategy's answer; what failed is not tried again until something comes free."""
        if self.board.version != self._failed_at:
            self._failed.clear()
            self._failed_at = self.board.version
        if request in self._failed:
            return None
        placement = self.strategy(job)(self.board, request)
        if placement is None:
            self._failed.add(request)
        return placement

    def amounts(self, slots: tuple[Slot, ...]) -> Counter[str]:
        """Devices by type among these slots."""
        return held_by_type(self.view.cluster, slots)

    def running(self) -> list[JobState]:
        """Jobs that run and are not being stopped or moved by this cycle."""
        states = self.view.jobs.values()
        return [s for s in states if s.phase is Phase.RUNNING and self.untouched(s)]

    def untouched(self, state: JobState) -> bool:
        """Whether this cycle neither stops nor moves the job."""
        return state.number not in self.outcome.stops and state.number not in self.outcome.moves

    def leaving(self) -> tuple[Slot, ...]:
        """Slots that jobs are about to let go: stopped, shrunk or moved by an earlier cycle."""
        if self._leaving is None:
            found: list[Slot] = []
            for number in sorted(self.standing.changing):
                state = self.view.jobs[number]
                kept = set(state.target.slots) if state.target else set()
                found += [slot for slot in state.held() if slot not in kept]
            self._leaving = tuple(found)
        return self._leaving

    def is_coming(self) -> bool:
        """Whether anything is about to come free, by changes under way or decided so far."""
        return bool(self._given or self.leaving())

    def leaving_bits(self) -> Mapping[str, int]:
        """The devices among them, by node."""
        if self._leaving_bits is None:
            self._leaving_bits = Placement(self.leaving()).bits()
        return self._leaving_bits

    def later(self) -> Board:
        """The board as it will be once every change under way, or decided so far, is done.

        What is made free for one gang and is more than it needs is there for the next.
        """
        if self._later is None:
            self._later = Board(self.view.cluster)
            self._later.take(self._taken)
            self._later.put_back((*self.leaving(), *self._given))
            for number, kept in self._withheld.items():
                slots = self.outcome.promises[number].placement.slots
                kept.append((self._later, self._later.withhold(slots)))
        return self._later

    def by_pool(self) -> Mapping[tuple[str, str], list[JobState]]:
        """Jobs that run or start, by pool and type of their devices."""
        if self._by_pool is None:
            self._by_pool = defaultdict(list)
            for state in self.view.jobs.values():
                if state.phase in (Phase.RUNNING, Phase.STARTING) and state.placement:
                    for device_type in self.amounts(state.placement.slots):
                        self._by_pool[state.job.pool, device_type].append(state)
        return self._by_pool

    def grown(self) -> Mapping[tuple[str, str], list[JobState]]:
        """Those of them that had more workers than their least when the cycle began."""
        if self._grown is None:
            self._grown = {
                key: [state for state in states if self.has_grown(state)]
                for key, states in self.by_pool().items()
            }
        return self._grown

    def has_grown(self, state: JobState) -> bool:
        """Whether a job had more workers than its least when the cycle began."""
        placed = state.placement
        return placed is not None and placed.count(Role.WORKER) > self.least(state.job)

    def placement_of(self, state: JobState) -> Placement:
        """Where the job will be after what this cycle has decided so far."""
        change = self.outcome.starts.get(state.number) or self.outcome.resizes.get(state.number)
        placement = change.placement if change else state.placement
        assert placement is not None
        return placement

    def victims(self, pool: str, device_type: str) -> Iterator[Victim]:
        """Gangs of a pool that may still be preempted, lowest priority first, then cheapest."""
        key = (pool, device_type)
        if key not in self._victims:
            gangs = (state for state in self.by_pool()[key] if state.job.preemptible)
            self._victims[key] = deque(sorted(self._victim(state) for state in gangs))
        queue = self._victims[key]
        # The cheapest go first, so what is gone is mostly at the front and is looked at only once.
        while queue and not self._whole(queue[0]):
            queue.popleft()
        return filter(self._whole, queue)

    def _victim(self, state: JobState) -> Victim:
        """A whole job as one that could be stopped, priced by what would be lost with it."""
        slots = self.placement_of(state).slots
        devices = sum(slot.bits.bit_count() for slot in slots)
        safe_since = max(state.started or 0.0, state.checkpointed or 0.0)
        lost = max(0.0, self.now - safe_since) + state.job.pause
        return (state.job.priority, lost, state.number, Candidate(state.number, slots, devices * lost))

    def _whole(self, victim: Victim) -> bool:
        """Whether this cycle has left the job alone."""
        state = self.view.jobs[victim[2]]
        return self.untouched(state) and state.number not in self.outcome.resizes

    def expected_end(self, state: JobState) -> float | None:
        """When a job that runs or starts in this cycle should end, in s, if its duration is known."""
        begun = self.now if state.number in self.outcome.starts else state.started
        if state.job.duration is None or begun is None:
            return None
        return begun + state.job.duration

    # What may be done at it

    def start(self, job: Job, placement: Placement, reason: Reason) -> None:
        """Give a waiting job its gang."""
        self._commit(job, placement.slots)
        asked = self.allocations.get(job.number)
        self.outcome.starts[job.number] = Change(placement, reason, asked.batch if asked else None)
        self.outcome.promises.pop(job.number, None)

    def extend(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Give a job more tasks, whether it runs or starts in this cycle."""
        placement = self.placement_of(state).with_slots(slots)
        self._commit(state.job, slots)
        started = self.outcome.starts.get(state.number)
        if started is not None:
            self.outcome.starts[state.number] = replace(started, placement=placement)
        else:
            self._resize(state, placement, reason)

    def rearrange(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Give a running job another set of tasks, some of them where they are already."""
        held = set(self.placement_of(state).slots)
        comes = tuple(slot for slot in placement.slots if slot not in held)
        goes = tuple(slot for slot in held if slot not in placement.slots)
        self._commit(state.job, comes)
        self._give_back(state.job, goes)
        self._resize(state, placement, reason)

    def relocate(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Move a running job to devices of another type."""
        self._commit(state.job, placement.slots)
        self._give_back(state.job, self.placement_of(state).slots)
        self.outcome.moves[state.number] = Change(placement, reason, self._batch(state))

    def _resize(self, state: JobState, placement: Placement, reason: Reason) -> None:
        self.outcome.resizes[state.number] = Change(placement, reason, self._batch(state))

    def _batch(self, state: JobState) -> int | None:
        """The batch the policy wants; a job it says nothing about keeps the one it has."""
        asked = self.allocations.get(state.number)
        return asked.batch if asked else state.batch

    def replace(self, state: JobState, placement: Placement) -> None:
        """Give a job that starts in this cycle a larger placement on the same type of devices."""
        old = self.outcome.starts[state.number]
        gone = set(old.placement.slots)
        self._put_back(old.placement.slots)
        self._taken = [slot for slot in self._taken if slot not in gone]
        self._claim(state.job, placement.slots, gives=old.placement.slots)
        more = self.amounts(placement.slots) - self.amounts(old.placement.slots)
        self.quotas.add(state.job, more)
        self.outcome.starts[state.number] = replace(old, placement=placement)

    def shrink(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Take tasks above its least from a running job; it holds them until it has let go."""
        placement = self.placement_of(state).without(slots)
        self._give_back(state.job, slots)
        self._resize(state, placement, reason)

    def stop(self, state: JobState, reason: Reason) -> None:
        """Preempt a whole gang; it holds its devices until it has stopped."""
        self._give_back(state.job, self.placement_of(state).slots)
        self.outcome.stops[state.number] = reason

    def move(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Migrate a job; it holds both places until it has moved."""
        held = set(state.held())
        self._claim(state.job, tuple(slot for slot in placement.slots if slot not in held))
        self._let_go(tuple(slot for slot in held if slot not in placement.slots))
        self.outcome.moves[state.number] = Change(placement, reason, self._batch(state))

    def promise(self, promise: Promise) -> None:
        """Withhold devices from everybody else, and count them as the pool's."""
        self.outcome.promises[promise.job] = promise
        self._counted.add(promise.job)
        self.retain(promise.job)

    def withhold(self, promise: Promise) -> None:
        """Set aside what an older promise is about, before anybody is served."""
        self.outcome.promises[promise.job] = promise
        self.retain(promise.job)
        if self._keeps_something(promise):
            self.unserved[promise.job] = promise

    def release(self, number: int) -> None:
        """Put back what is withheld for a job, so that it (or one let past) may use it."""
        kept = self._withheld.pop(number, None)
        if kept is not None:
            self.turned_away.clear()
            for board, parts in kept:
                board.restore(parts)
            self._count_promise(number, -1)

    def _keeps_something(self, promise: Promise) -> bool:
        """Whether any of the devices promised is free now; where there are none, cores always are."""
        _, parts = self._withheld[promise.job][0]
        return any(entry.bits for entry in parts) or not promise.placement.devices

    def retain(self, number: int) -> None:
        """Withhold what is free of a promise."""
        self.turned_away.clear()
        slots = self.outcome.promises[number].placement.slots
        if self.outcome.promises[number].cause is Code.WAITING_DEVICES:
            self._reserved.add(number)
        boards = [self.board] if self._later is None else [self.board, self._later]
        self._withheld[number] = [(board, board.withhold(slots)) for board in boards]
        self._count_promise(number, 1)

    def _count_promise(self, number: int, sign: int) -> None:
        if number in self._counted:
            amounts = self.amounts(self.outcome.promises[number].placement.slots)
            self.quotas.promise(self.view.jobs[number].job, amounts, sign)

    def reserved(self) -> list[Promise]:
        """Promises to jobs served so far that wait for others to end: those behind get no other."""
        served = self._reserved & self._counted
        return [self.outcome.promises[number] for number in served if number in self.outcome.promises]

    def strategy(self, job: Job) -> Strategy:
        """How the job is placed."""
        if self.rules.strategy != "adaptive":
            return STRATEGIES[self.rules.strategy]
        if any(spec.role is Role.SERVER for spec in job.roles):
            return even
        return pack if self.mood.packing else spread

    def _commit(self, job: Job, slots: tuple[Slot, ...]) -> None:
        self._claim(job, slots)
        self.quotas.add(job, self.amounts(slots))

    def _put_back(self, slots: tuple[Slot, ...]) -> None:
        self.board.put_back(slots)
        if self._later is not None:
            self._later.put_back(slots)

    def _claim(self, job: Job, slots: tuple[Slot, ...], gives: tuple[Slot, ...] = ()) -> None:
        self.turned_away.clear()
        claim = Claim(job.number, self.view.version, slots, gives)
        verdict = self.standing.ledger.commit(claim)
        if isinstance(verdict, Rejected):
            raise LedgerRefusedError(f"job {job.number}: {verdict.conflicts}")
        self._claims.append(claim)
        self.board.take(slots)
        self._taken += slots
        if self._later is not None:
            self._later.take(slots)

    def _give_back(self, job: Job, slots: tuple[Slot, ...]) -> None:
        self.quotas.give_back(job, self.amounts(slots))
        self._let_go(slots)

    def _let_go(self, slots: tuple[Slot, ...]) -> None:
        self.turned_away.clear()
        self._given += slots
        if self._later is not None:
            self._later.put_back(slots)

    def leave(self) -> None:
        """Give the standing back as it was: what was decided comes true only in a later view."""
        self.standing.ledger.undo(self._claims)
        self._claims = []

    def _pressure(self) -> Pressure:
        kinds = [kind for kind in self.view.cluster.configurations.values() if kind.devices]
        shelves = [self.standing.board.shelves[kind.name] for kind in kinds]
        waiting = self.standing.waiting.values()
        return Pressure(
            whole=sum(s.by_count[-1].bit_count() * s.kind.devices for s in shelves),
            per_node=max((kind.devices for kind in kinds), default=0),
            singles=sum(devices == 1 for devices in waiting),
            gangs=tuple(devices for devices in waiting if devices > 1),
        )
