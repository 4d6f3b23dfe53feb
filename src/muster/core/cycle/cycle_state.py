"""The state of one cycle: what is free, what pools may take, and what has been decided so far.

All mutable state of deciding is here, made from the view and dropped with the cycle. The other modules
of `core` read it and act through its verbs: start, shrink, stop, move, promise.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from statistics import median

import numpy as np
from numpy.typing import NDArray

from muster.core.cycle.moves.avoided import avoided
from muster.core.cycle.options import Option
from muster.core.cycle.outcome import Change, CycleOutcome
from muster.core.cycle.standing import Standing
from muster.core.quotas.demand import held_by_type
from muster.core.quotas.ledger import Rejected
from muster.model.decision import Promise
from muster.model.job import Job, Role
from muster.model.placement import Claim, Placement, Slot
from muster.model.pool import Entitlements
from muster.model.profile import CapturedShape
from muster.model.reason import Code, Reason
from muster.model.topology import Level
from muster.model.view import JobState, Phase
from muster.place.adaptive import Mood, Pressure, cheapest, settle
from muster.place.board import Board, Withheld
from muster.place.clear import Candidate
from muster.place.even import even
from muster.place.migrate import Movable
from muster.place.pack import pack
from muster.place.prices import Prices
from muster.place.request import Request, Strategy
from muster.place.roomy import roomy
from muster.place.spread import spread
from muster.place.uplinks import Uplinks, around_slow, uplinks_of
from muster.policy.base import Allocation

Rank = tuple[bool, int]
"""Whether a stop costs a gang all its work, and its priority: the lowest is preempted first."""
Victim = tuple[Rank, float, int, Candidate]
"""A gang that may be preempted, sorted by rank, cost per device and number."""

STRATEGIES: Mapping[str, Strategy] = {"pack": pack, "spread": spread, "even": even, "roomy": roomy}
PRICED = {"pack": pack, "spread": spread, "cheapest": cheapest}
"""Strategies that weigh what neighbours cost."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What an operator may set."""

    strategy: str = "adaptive"
    """One of `STRATEGIES`, or adaptive: spread or pack by the mood, parameter servers even."""
    patience: float = 600.0
    """s a job lets younger ones pass before devices are promised to it: Optimus' interval, the time
    over which a queue is worth reordering."""
    migrate: bool = True
    """Whether small jobs may be moved to make room for a gang."""
    grace: float = 30.0
    """s a gang gets to stop or shrink; a promise that still does not help lapses after twice that."""


class LedgerRefusedError(AssertionError):
    """The cycle claimed what is not free: a bug, never a fault of the input."""


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
        self.entitled = entitled
        self.quotas = standing.quotas(entitled)
        self.allocations = {each.job: each for each in allocations}
        self.steered, self.queued = self.allocations, self.allocations
        """Those of policies that steer, and those of policies that queue."""
        self.gangs: dict[int, Change] = {}
        """What starts by itself, before any of it grows into what is idle."""
        self.outcome = CycleOutcome()
        self.unserved: dict[int, Promise] = {}
        """Promises of earlier cycles that withhold something and whose job has not had its turn."""
        self.hopeless: set[tuple[object, ...]] = set()
        """Ways to make room that failed for one job and would fail for similar ones, this cycle."""
        self.turned_away: dict[tuple[object, ...], Code] = {}
        """Kinds of jobs for which there is no room, and what stopped them: younger jobs of the kind
        are not tried until something changes."""
        self.wanted: dict[tuple[int, str | None], list[Option]] = {}
        """Options of jobs on the device type that the policy wants."""
        self.too_little: dict[Request, float] = {}
        """The gain for which no migration paid, in device-seconds."""
        self.movers: dict[int, Movable | None] = {}
        """Running jobs as those that may be moved; None: on devices of several types."""
        self.openings: dict[Request, float] = {}
        """s until a place comes free by itself."""
        self.settled: set[int] = set()
        """Jobs that this cycle moves off draining nodes, or changes as a planner proposed: nothing
        else is decided about them."""
        self.spared: set[int] = set()
        """Jobs that keep devices which the policy would take, since nobody could use them."""
        self.mood = settle(mood, self._pressure(), now)
        self._later: Board | None = None
        self._claims: list[Claim] = []
        self._given: Counter[Slot] = Counter()
        self._withheld: dict[int, list[tuple[Board, tuple[Withheld, ...]]]] = {}
        self._counted: set[int] = set()
        """Jobs whose promise counts in the quotas; before a job's turn it does not."""
        self._victims: dict[tuple[str, str], deque[Victim]] = {}
        self._reserved: set[int] = set()
        self._failed: set[Request] = set()
        self._failed_at = standing.board.version

    # Queries

    @cached_property
    def board(self) -> Board:
        """What is free after this cycle's starts: a copy, made on first use."""
        return self._after_claims(self.standing.board.copy())

    @cached_property
    def prices(self) -> Prices:
        """What places cost because of the neighbours there, this cycle's starts included."""
        return self.standing.prices()

    def short_of_room(self, job: Job, workers: int) -> Iterator[Option]:
        """Yield the options where only room is lacking: the pool could take the job there."""
        for option in self.options.of(job):
            types, request = self.options.types(option), self.options.request(job, workers, option)
            if len(types) == 1 and request.plan.devices:
                blocked = self.quotas.verdict(job, {types[0]: request.plan.devices}) is not None
            else:
                blocked = self.place(job, request) is not None  # so a quota was the obstacle
            if not blocked:
                yield option

    def likes(self, job: Job, workers: int) -> tuple[object, ...]:
        """Return a key of jobs that are treated alike. By identity, which is fast: equal jobs that do
        not share these objects are just tried separately. A job of known duration may be backfilled,
        and has a key of its own."""
        alone = job.number if job.duration is not None else self.quotas.capped_user(job)
        own = (id(job.roles), id(job.locality), id(job.profile), id(job.model), job.batch)
        return (*own, job.pool, job.preemptible, job.device_types, job.same_generation, workers, alone)

    def least(self, job: Job) -> int:
        """Return the workers the job may be shrunk to. A job that the policy leaves out keeps what it
        has, but may still be reclaimed down to its gang; so may one that is to have nothing, and keeps
        its devices because nobody could use them."""
        allocation = self.allocations.get(job.number)
        return max(allocation.least, job.workers.gang) if allocation else job.workers.gang

    def place(self, job: Job, request: Request) -> Placement | None:
        """Return the strategy's placement; failures are not retried until something comes free."""
        if self.board.version != self._failed_at:
            self._failed.clear()
            self._failed_at = self.board.version
        if request in self._failed:
            return None
        placement = self.strategy(job)(self.board, request)
        if placement is None:
            self._failed.add(request)
        return placement

    def shape_of(self, state: JobState) -> CapturedShape | None:
        """Return what the job's training looks like: as captured, else as the model it names."""
        known = self.view.shapes.get(state.number)
        if known is None and state.job.model is not None:
            return CapturedShape(state.job.model)
        return known

    def amounts(self, slots: tuple[Slot, ...]) -> Counter[str]:
        """Return the devices by type among these slots."""
        return held_by_type(self.view.cluster, slots)

    def running(self) -> list[JobState]:
        """Return running jobs that this cycle neither stops nor moves."""
        states = self.view.jobs.values()
        return [s for s in states if s.phase is Phase.RUNNING and self.untouched(s)]

    def moving_cost(self, state: JobState) -> float:
        """Return the device-seconds that moving a running job costs."""
        assert state.placement is not None
        return state.placement.devices * self.view.resize_pause(state)

    @cached_property
    def moving_costs(self) -> tuple[list[JobState], NDArray[np.int64], NDArray[np.float64]]:
        """Running jobs at the start of the cycle with their devices and what moving them costs: every
        gang that is started asks for those small and cheap enough."""
        running = [s for s in self.view.jobs.values() if s.phase is Phase.RUNNING and s.placement]
        devices = [s.placement.devices for s in running if s.placement]
        costs = [self.moving_cost(s) for s in running]
        return running, np.array(devices, dtype=np.int64), np.array(costs, dtype=np.float64)

    @cached_property
    def usual_age(self) -> float:
        """The median s that running jobs have run so far; 0 without any."""
        states = self.view.jobs.values()
        ages = [
            self.now - s.started for s in states if s.placement is not None and s.started is not None
        ]
        return median(ages) if ages else 0.0

    def untouched(self, state: JobState) -> bool:
        """Whether this cycle neither stops nor moves the job."""
        return state.number not in self.outcome.stops and state.number not in self.outcome.moves

    @cached_property
    def uplinks(self) -> Uplinks:
        """The links of nodes."""
        return uplinks_of(self.view.cluster, self.view.uplinks)

    @cached_property
    def leaving(self) -> tuple[Slot, ...]:
        """Slots about to come free: stopped, shrunk or moved by an earlier cycle."""
        found: list[Slot] = []
        for number in sorted(self.standing.changing):
            state = self.view.jobs[number]
            kept = set(state.target.slots) if state.target else set()
            found += [slot for slot in state.held() if slot not in kept]
        return tuple(found)

    def is_coming(self) -> bool:
        """Whether anything is about to come free, by changes in progress or decided so far."""
        # What comes free on a draining node is not used again.
        gone = self.standing.draining
        if not gone:
            return bool(self._given or self.leaving)
        return any(slot.node not in gone for slot in (*self._given, *self.leaving))

    @cached_property
    def leaving_bits(self) -> Mapping[str, int]:
        """The devices of `leaving`, by node."""
        return Placement(self.leaving).bits()

    def later(self) -> Board:
        """Return the board after every change in progress or decided so far.

        What is freed for one gang beyond its need is there for the next.
        """
        if self._later is None:
            self._later = self._after_claims(self.standing.board.copy())
            self._later.put_back((*self.leaving, *self._given.elements()))
            for number, kept in self._withheld.items():
                slots = self.outcome.promises[number].placement.slots
                kept.append((self._later, self._later.withhold(slots)))
        return self._later

    @cached_property
    def by_pool(self) -> Mapping[tuple[str, str], list[JobState]]:
        """Running and starting jobs by pool and device type, less those wholly on draining nodes."""
        found: dict[tuple[str, str], list[JobState]] = defaultdict(list)
        gone = self.standing.draining.keys()
        for state in self.view.jobs.values():
            if state.phase in (Phase.RUNNING, Phase.STARTING) and state.placement:
                if gone and state.placement.nodes() <= gone:
                    continue  # a stop would free nothing that can be used
                for device_type in self.standing.types[state.number]:
                    found[state.job.pool, device_type].append(state)
        return found

    @cached_property
    def grown(self) -> Mapping[tuple[str, str], list[JobState]]:
        """Those of `by_pool` that began the cycle with more workers than their least."""
        return {
            key: [
                s for s in states if s.placement and s.placement.count(Role.WORKER) > self.least(s.job)
            ]
            for key, states in self.by_pool.items()
        }

    def placement_of(self, state: JobState) -> Placement:
        """Return the job's placement after the decisions so far."""
        change = self.outcome.starts.get(state.number) or self.outcome.resizes.get(state.number)
        placement = change.placement if change else state.placement
        assert placement is not None
        return placement

    def victims(self, pool: str, device_type: str) -> Iterator[Victim]:
        """Return gangs of a pool that may still be preempted, lowest rank first, then cheapest."""
        key = (pool, device_type)
        if key not in self._victims:
            gangs = (state for state in self.by_pool[key] if state.job.preemptible)
            self._victims[key] = deque(sorted(self._victim(state) for state in gangs))
        queue = self._victims[key]
        # The cheapest go first, so those gone are mostly at the front and are dropped once.
        while queue and not self._whole(queue[0]):
            queue.popleft()
        return filter(self._whole, queue)

    def _victim(self, state: JobState) -> Victim:
        """Return a job as a candidate to stop, priced by the work that would be lost."""
        slots = self.placement_of(state).slots
        devices = sum(slot.bits.bit_count() for slot in slots)
        lost = self.price(state)
        rank = (not state.keeps_work, state.job.priority)
        return (rank, lost, state.number, Candidate(state.number, slots, devices * lost))

    def price(self, state: JobState) -> float:
        """Return the seconds of work that a stop costs: what is at risk, and a pause."""
        return state.at_risk(self.now) + self.view.start_pause(state)

    def cost(self, state: JobState) -> float:
        """Return the device-seconds of work that a stop costs the job, to be told. One that saves when
        asked, by signal or by the runtime, loses the pause alone; what is at risk (`price`) is lost
        only if the save fails."""
        job = state.job
        saves = job.program.checkpoint_signal is not None or (job.elastic and not job.restarts)
        return (self.view.start_pause(state) if saves else self.price(state)) * self.placement_of(
            state
        ).devices

    def lost(self, state: JobState) -> float | None:
        """Return the seconds of work lost for good by a stop; None: it goes on from a checkpoint."""
        return None if state.keeps_work else state.at_risk(self.now)

    def _whole(self, victim: Victim) -> bool:
        """Whether this cycle has not changed the job."""
        state = self.view.jobs[victim[2]]
        return self.untouched(state) and state.number not in self.outcome.resizes

    def expected_end(self, state: JobState) -> float | None:
        """Return when a running or starting job should end, in s, if its duration is known."""
        begun = self.now if state.number in self.outcome.starts else state.started
        if state.job.duration is None or begun is None:
            return None
        return begun + state.job.duration

    # Decisions

    def start(self, job: Job, placement: Placement, reason: Reason) -> None:
        """Start a waiting job's gang."""
        neighbour = avoided(self, job, placement)
        if neighbour is not None:
            reason = replace(reason, avoided=neighbour)
        self._commit(job, placement.slots)
        asked = self.allocations.get(job.number)
        self.outcome.starts[job.number] = Change(placement, reason, asked.batch if asked else None)
        self.outcome.promises.pop(job.number, None)

    def extend(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Give more tasks to a job that runs or starts in this cycle."""
        placement = self.placement_of(state).with_slots(slots)
        self._commit(state.job, slots)
        started = self.outcome.starts.get(state.number)
        if started is not None:
            self.outcome.starts[state.number] = replace(started, placement=placement)
        else:
            self._resize(state, placement, reason)

    def rearrange(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Give a running job another set of tasks, some of them already in place."""
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
        """Return the batch the policy wants, or the job's current one."""
        asked = self.allocations.get(state.number)
        return asked.batch if asked else state.batch

    def replace(self, state: JobState, placement: Placement) -> None:
        """Give a job that starts in this cycle a larger placement on the same device type."""
        old = self.outcome.starts[state.number]
        self._claim(state.job, placement.slots, gives=old.placement.slots)
        more = self.amounts(placement.slots) - self.amounts(old.placement.slots)
        self.quotas.add(state.job, more)
        self.outcome.starts[state.number] = replace(old, placement=placement)

    def shrink(self, state: JobState, slots: tuple[Slot, ...], reason: Reason) -> None:
        """Take tasks above its least from a running job; it holds them until they have left."""
        placement = self.placement_of(state).without(slots)
        self._give_back(state.job, slots)
        self._resize(state, placement, reason)

    def stop(self, state: JobState, reason: Reason) -> None:
        """Preempt a whole gang; it holds its devices until it has stopped."""
        self._give_back(state.job, self.placement_of(state).slots)
        self.outcome.stops[state.number] = reason

    def spare(self, state: JobState) -> None:
        """Undo `stop`: the job keeps running."""
        del self.outcome.stops[state.number]
        self.spared.add(state.number)
        self._keep(state.job, self.placement_of(state).slots)

    def unshrink(self, state: JobState, slots: tuple[Slot, ...]) -> None:
        """Undo a part of `shrink`: the job keeps these tasks."""
        self.spared.add(state.number)
        change = self.outcome.resizes[state.number]
        placement = change.placement.with_slots(slots)
        if state.placement is not None and set(placement.slots) == set(state.placement.slots):
            del self.outcome.resizes[state.number]
        else:
            self.outcome.resizes[state.number] = replace(change, placement=placement)
        self._keep(state.job, slots)

    def move(self, state: JobState, placement: Placement, reason: Reason) -> None:
        """Migrate a job; it holds both placements until it has moved."""
        held = set(state.held())
        self._claim(state.job, tuple(slot for slot in placement.slots if slot not in held))
        self.let_go(tuple(slot for slot in held if slot not in placement.slots))
        self.outcome.moves[state.number] = Change(placement, reason, self._batch(state))

    def promise(self, promise: Promise) -> None:
        """Withhold devices for a job, and count them as its pool's."""
        self.outcome.promises[promise.job] = promise
        self._counted.add(promise.job)
        self.retain(promise.job)

    def withhold(self, promise: Promise) -> None:
        """Withhold the devices of an older promise before any job is served."""
        self.outcome.promises[promise.job] = promise
        self.retain(promise.job)
        if self._keeps_something(promise):
            self.unserved[promise.job] = promise

    def release(self, number: int) -> None:
        """Release what is withheld for a job, so that it (or a backfilled one) may use it."""
        kept = self._withheld.pop(number, None)
        if kept is not None:
            self.turned_away.clear()
            for board, parts in kept:
                board.restore(parts)
            self._count_promise(number, -1)

    def _keeps_something(self, promise: Promise) -> bool:
        """Whether any promised device is free now; promises without devices always count."""
        _, parts = self._withheld[promise.job][0]
        return any(entry.bits for entry in parts) or not promise.placement.devices

    def retain(self, number: int) -> None:
        """Withhold the free devices of a promise."""
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

    @contextmanager
    def without_promises(self, numbers: Iterable[int]) -> Iterator[None]:
        """Lift the promises of these jobs inside the block."""
        for number in (lifted := list(numbers)):
            self.release(number)
        yield
        for number in lifted:
            self.retain(number)

    def reserved(self) -> list[Promise]:
        """Return promises, to jobs served so far, that wait for others to end."""
        served = self._reserved & self._counted
        return [self.outcome.promises[number] for number in served if number in self.outcome.promises]

    def strategy(self, job: Job) -> Strategy:
        """Return the placement strategy of a job, around slow links."""
        chosen = self._strategy(job)
        return around_slow(chosen, self.uplinks) if self.uplinks.slower else chosen

    def _strategy(self, job: Job) -> Strategy:
        """Return the placement strategy of a job, with the prices of places for it."""
        name = self.rules.strategy
        if name == "adaptive":
            if any(spec.role is Role.SERVER for spec in job.roles):
                return even
            name = "pack" if self.mood.packing else "cheapest"
        if name not in PRICED:
            return STRATEGIES[name]
        return partial(PRICED[name], price=partial(self.prices.of, job.number))

    def _commit(self, job: Job, slots: tuple[Slot, ...]) -> None:
        self._claim(job, slots)
        self.quotas.add(job, self.amounts(slots))

    def _claim(self, job: Job, slots: tuple[Slot, ...], gives: tuple[Slot, ...] = ()) -> None:
        claim = Claim(job.number, self.view.version, slots, gives)
        verdict = self.standing.ledger.commit(claim)
        if isinstance(verdict, Rejected):
            raise LedgerRefusedError(f"job {job.number}: {verdict.conflicts}")
        self.take_in(claim)

    def take_in(self, claim: Claim) -> None:
        """Follow a claim that the ledger has approved."""
        self.turned_away.clear()
        self._claims.append(claim)
        self.standing.neighbourhood.add(claim.job, claim.takes)
        for board in (self.__dict__.get("board"), self._later):
            if board is not None:
                _follow(board, claim)

    def _after_claims(self, board: Board) -> Board:
        for claim in self._claims:
            _follow(board, claim)
        return board

    def _give_back(self, job: Job, slots: tuple[Slot, ...]) -> None:
        self.quotas.give_back(job, self.amounts(slots))
        self.let_go(slots)

    def let_go(self, slots: tuple[Slot, ...]) -> None:
        """Note what comes free later."""
        self.turned_away.clear()
        self._given.update(slots)
        if self._later is not None:
            self._later.put_back(slots)

    def _keep(self, job: Job, slots: tuple[Slot, ...]) -> None:
        """Undo `_give_back`."""
        self.quotas.keep(job, self.amounts(slots))
        for slot in slots:
            self._given[slot] -= 1
            if not self._given[slot]:
                del self._given[slot]
        if self._later is not None:
            self._later.take(slots)

    def close(self) -> None:
        """Restore the standing: decisions take effect only in a later view."""
        self.standing.ledger.undo(self._claims)
        for claim in self._claims:
            self.standing.seat(self.view.jobs[claim.job])
        self._claims = []

    def _pressure(self) -> Pressure:
        kinds = [kind for kind in self.view.cluster.configurations.values() if kind.devices]
        shelves = [self.standing.board.shelves[kind.name] for kind in kinds]
        waiting = self.standing.waiting.values()
        return Pressure(
            whole=sum(s.by_count[-1].bit_count() * s.kind.devices for s in shelves),
            per_node=max((kind.devices for kind in kinds), default=0),
            singles=sum(devices == 1 for devices in waiting),
            gangs=tuple(
                devices
                for number, devices in self.standing.waiting.items()
                if devices > 1 and not self._makes_room(self.view.jobs[number].job)
            ),
        )

    def _makes_room(self, job: Job) -> bool:
        """Whether small jobs would be moved for it: then no room need be kept."""
        contract = job.locality
        bound = contract.widest < Level.CLUSTER or contract.max_slowdown is not None
        return self.rules.migrate and bound


def _follow(board: Board, claim: Claim) -> None:
    """Enter a claim that was approved on a board."""
    if claim.gives:
        board.put_back(claim.gives)
    board.take(claim.takes)
