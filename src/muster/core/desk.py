"""The desk of one cycle: what is free, who may take how much, and what has been decided so far.

Everything mutable in deciding is here, made from the view and thrown away with the cycle. The other
modules of `core` read it and act through its few verbs: start, shrink, stop, move, promise.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from muster.core.books import Books
from muster.core.demand import held_by_type
from muster.core.ledger import Ledger, Rejected
from muster.core.options import Option, device_types, options
from muster.model.decision import Promise
from muster.model.job import Job, Role
from muster.model.placement import Claim, Placement, Slot
from muster.model.pool import Entitlements
from muster.model.reason import Code, Reason
from muster.model.topology import Level
from muster.model.view import JobState, Phase, View
from muster.perf.slowdown import Reach, reach, widest_within
from muster.place.adaptive import Mood, Pressure, settle
from muster.place.board import Board, Withheld
from muster.place.even import even
from muster.place.pack import pack
from muster.place.request import Request, Strategy
from muster.place.spread import spread
from muster.planner.counts import plan_for
from muster.policy.base import Allocation

STRATEGIES: Mapping[str, Strategy] = {"pack": pack, "spread": spread, "even": even}


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator may set."""

    strategy: str = "adaptive"
    """One of `STRATEGIES`, or adaptive: spread or pack by the mood, parameter servers evenly."""
    patience: float = 600.0
    """s a job lets younger ones pass before devices are promised to it: Optimus' interval, the
    time over which a queue is worth reordering."""
    grace: float = 30.0
    """s a gang gets to stop or shrink; a promise on its devices lapses after twice that."""


@dataclass(frozen=True, slots=True)
class Change:
    """A job's next placement, and why."""

    placement: Placement
    reason: Reason


@dataclass(frozen=True, slots=True)
class MigrationReport:
    """A migration: for whom, who moves, cost and gain in device-seconds, fragmentation around it."""

    job: str
    moved: tuple[str, ...]
    cost: float
    gain: float
    fragmentation_before: float
    fragmentation_after: float


@dataclass(slots=True)
class Outcome:
    """What has been decided so far, by job."""

    starts: dict[str, Change] = field(default_factory=dict)
    resizes: dict[str, Change] = field(default_factory=dict)
    moves: dict[str, Change] = field(default_factory=dict)
    stops: dict[str, Reason] = field(default_factory=dict)
    obstacles: dict[str, Code] = field(default_factory=dict)
    """For each job that waits: what stopped it first."""
    promises: dict[str, Promise] = field(default_factory=dict)
    migrations: list[MigrationReport] = field(default_factory=list)


class LedgerRefusedError(AssertionError):
    """The cycle claimed what is not free: a fault of this program, never of its input."""


class Desk:
    """Working state of one cycle."""

    def __init__(
        self,
        view: View,
        entitled: Entitlements,
        allocations: Iterable[Allocation],
        now: float,
        mood: Mood,
        rules: Rules,
    ) -> None:
        self.view = view
        self.now = now
        self.rules = rules
        self.board = Board(view.cluster)
        self.ledger = Ledger.of(view)
        self.books = Books(view, entitled)
        self.allocations = {each.job: each for each in allocations}
        self.outcome = Outcome()
        self.mood = settle(mood, self._pressure(), now)
        self._withheld: dict[str, tuple[Withheld, ...]] = {}
        self._options: dict[tuple[tuple[str, ...], bool, bool], tuple[Option, ...]] = {}
        self._types: dict[Option, tuple[str, ...]] = {}
        self._reach: dict[tuple[Option, int], Reach] = {}
        self._requests: dict[tuple[object, ...], Request] = {}
        self._by_pool: dict[tuple[str, str], list[JobState]] | None = None
        self._failed: set[Request] = set()
        self._failed_at = self.board.version

    # What may be asked of it

    def options(self, job: Job) -> tuple[Option, ...]:
        """The configuration sets the job may use, in order of preference."""
        needs_devices = any(spec.need.devices for spec in job.roles)
        key = (job.device_types, job.same_generation, needs_devices)
        if key not in self._options:
            self._options[key] = options(job, self.view.cluster)
        return self._options[key]

    def types(self, option: Option) -> tuple[str, ...]:
        """The device types of an option."""
        if option not in self._types:
            self._types[option] = device_types(option, self.view.cluster)
        return self._types[option]

    def request(self, job: Job, workers: int, option: Option) -> Request:
        """The job with so many workers, as a question to a strategy."""
        key = (job.roles, job.locality, job.profile, workers, option)
        if key not in self._requests:
            plan = plan_for(job, workers)
            widest = self.widest(job, plan.devices, option)
            self._requests[key] = Request(plan, option, widest)
        return self._requests[key]

    def widest(self, job: Job, devices: int, option: Option) -> Level:
        """The widest level the job's contract allows with so many devices."""
        if job.locality.max_slowdown is None:
            return job.locality.widest
        key = (option, devices)
        if key not in self._reach:
            kinds = tuple(self.view.cluster.configurations[name] for name in option)
            self._reach[key] = reach(self.view.cluster, kinds, devices)
        return widest_within(job, devices, self._reach[key])

    def place(self, job: Job, request: Request) -> Placement | None:
        """The strategy's answer; what failed is not tried again until something comes free."""
        if self.board.version != self._failed_at:
            self._failed.clear()
            self._failed_at = self.board.version
        if request in self._failed:
            return None
        placement = self._strategy(job)(self.board, request)
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
        return state.name not in self.outcome.stops and state.name not in self.outcome.moves

    def by_pool(self) -> Mapping[tuple[str, str], list[JobState]]:
        """Jobs that run or start, by pool and type of their devices."""
        if self._by_pool is None:
            self._by_pool = defaultdict(list)
            for state in self.view.jobs.values():
                if state.phase in (Phase.RUNNING, Phase.STARTING) and state.placement:
                    for device_type in self.amounts(state.placement.slots):
                        self._by_pool[state.job.pool, device_type].append(state)
        return self._by_pool

    def placement_of(self, state: JobState) -> Placement:
        """Where the job will be after what this cycle has decided so far."""
        change = self.outcome.starts.get(state.name) or self.outcome.resizes.get(state.name)
        placement = change.placement if change else state.placement
        assert placement is not None
        return placement

    # What may be done at it

    def start(self, job: Job, placement: Placement, reason: Reason) -> None:
        """Give a waiting job its gang."""
        self._commit(job, placement.slots)
        self.outcome.starts[job.name] = Change(placement, reason)
        self.outcome.promises.pop(job.name, None)

    def extend(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Give a job more tasks, whether it runs or starts in this cycle."""
        placement = self.placement_of(state).with_slots(slots)
        self._commit(state.job, slots)
        started = self.outcome.starts.get(state.name)
        if started is not None:
            self.outcome.starts[state.name] = Change(placement, started.reason)
        else:
            self.outcome.resizes[state.name] = Change(placement, reason)

    def shrink(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Take tasks above its least from a running job; it holds them until it has let go."""
        placement = self.placement_of(state).without(slots)
        self.books.add(state.job, self.amounts(slots), sign=-1)
        self.outcome.resizes[state.name] = Change(placement, reason)

    def stop(self, state: JobState, reason: Reason) -> None:
        """Preempt a whole gang; it holds its devices until it has stopped."""
        self.books.add(state.job, self.amounts(self.placement_of(state).slots), sign=-1)
        self.outcome.stops[state.name] = reason

    def move(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Migrate a job; it holds both places until it has moved."""
        held = set(state.held())
        self._claim(state.job, tuple(slot for slot in placement.slots if slot not in held))
        self.outcome.moves[state.name] = Change(placement, reason)

    def promise(self, job: Job, promise: Promise) -> None:
        """Withhold devices from everybody else, and count them as the pool's."""
        self.outcome.promises[job.name] = promise
        self._withheld[job.name] = self.board.withhold(promise.placement.slots)
        self.books.add(job, self.amounts(promise.placement.slots))

    def withhold(self, promise: Promise) -> None:
        """Set aside what an older promise is about, before anybody is served."""
        self.outcome.promises[promise.job] = promise
        self._withheld[promise.job] = self.board.withhold(promise.placement.slots)

    def release(self, name: str) -> None:
        """Put back what is withheld for a job, so that it (or one let past) may use it."""
        kept = self._withheld.pop(name, None)
        if kept is not None:
            self.board.restore(kept)

    def retain(self, name: str) -> None:
        """Withhold again what is still free of a promise."""
        promise = self.outcome.promises[name]
        self._withheld[name] = self.board.withhold(promise.placement.slots)

    def _strategy(self, job: Job) -> Strategy:
        if self.rules.strategy != "adaptive":
            return STRATEGIES[self.rules.strategy]
        if any(spec.role is Role.SERVER for spec in job.roles):
            return even
        return pack if self.mood.packing else spread

    def _commit(self, job: Job, slots: tuple[Slot, ...]) -> None:
        self._claim(job, slots)
        self.books.add(job, self.amounts(slots))

    def _claim(self, job: Job, slots: tuple[Slot, ...]) -> None:
        verdict = self.ledger.commit(Claim(job.name, self.view.version, slots))
        if isinstance(verdict, Rejected):
            raise LedgerRefusedError(f"{job.name}: {verdict.conflicts}")
        self.board.take(slots)

    def _pressure(self) -> Pressure:
        kinds = [kind for kind in self.view.cluster.configurations.values() if kind.devices]
        shelves = [self.board.shelves[kind.name] for kind in kinds]
        waiting = [
            plan_for(state.job, state.job.workers.gang).devices
            for state in self.view.jobs.values()
            if state.phase is Phase.WAITING
        ]
        return Pressure(
            whole=sum(s.by_count[-1].bit_count() * s.kind.devices for s in shelves),
            per_node=max((kind.devices for kind in kinds), default=0),
            singles=waiting.count(1),
            gangs=tuple(devices for devices in waiting if devices > 1),
        )


def expected_end(state: JobState) -> float | None:
    """When the job should end, in s, where its duration is known."""
    if state.job.duration is None or state.started is None:
        return None
    return state.started + state.job.duration


def lapse(desk: Desk) -> float:
    """When a promise made now on devices that are being cleared lapses."""
    return desk.now + 2 * desk.rules.grace
