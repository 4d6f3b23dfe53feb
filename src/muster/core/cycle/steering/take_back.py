"""Take back stops and shrinks that serve nobody.

A steering policy counts devices. It does not know which nodes they are on, and so not what contracts,
cores and draining nodes leave of them. So once jobs with too much have let go, those that are to have
more are placed tentatively, in the policy's order, on everything that is or comes free. A stopped job
then keeps running if all of them can be placed without its devices, and a shrunk one keeps the devices
that none of them uses while one still lacks some: no device is left idle that the job it was taken from
could have kept.

A job that would start over after a stop (see `JobState.keeps_work`) keeps running unless one that
outranks it needs its devices.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from muster.core.cycle.cycle_state import CycleState
from muster.core.cycle.moves.rearrange import rearranged, within_contract
from muster.core.cycle.moves.unequal import mixes, unequal
from muster.core.cycle.steering.takers import Slots, Taker, Takers, in_turn
from muster.core.cycle.steering.wanted import elsewhere, options_for
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.reason import Code, Reason
from muster.model.view import JobState, Phase
from muster.place.board import Board
from muster.place.request import Request, Strategy
from muster.policy.base import Allocation
from muster.policy.room import type_held


def take_back(cycle: CycleState, lacking: Iterable[tuple[JobState, Allocation]]) -> None:
    """Undo what the policy's targets do not need, and say whom the rest serves. `lacking`: jobs that do
    not have what the policy wants."""
    jobs, outcome = cycle.view.jobs, cycle.outcome
    stopped = [jobs[number] for number in outcome.stops if number not in cycle.settled]
    shrunk = [jobs[number] for number in outcome.resizes if number not in cycle.settled]
    if not stopped and not shrunk:
        return
    trial = _Trial(cycle, lacking)
    # Those that would lose most are the first to be kept.
    for state in sorted(stopped, key=lambda s: (s.keeps_work, -cycle.price(s), s.number)):
        trial.reconsider(state)
    for state in shrunk:
        trial.restore(state)
    for state in stopped:
        if state.number in outcome.stops:
            trial.explain(state)
    for state in shrunk:
        if state.number in outcome.resizes:
            trial.name_taker(state)
    trial.close()


class _Trial:
    """The jobs that are to have more, placed on all that comes free."""

    def __init__(self, cycle: CycleState, lacking: Iterable[tuple[JobState, Allocation]]) -> None:
        self._cycle = cycle
        self._board = cycle.later().copy()
        self._failed: set[Request] = set()
        self._takers = Takers()
        self._short = False
        """Whether one of them gets less than the policy says."""
        for state, allocation in lacking:
            if allocation.most:
                self._place(state, allocation)

    def close(self) -> None:
        """Count the tentative placements in no pool any more."""
        for taker in self._takers:
            self._count(taker, -1)

    def _place(self, state: JobState, allocation: Allocation) -> None:
        outcome = self._cycle.outcome
        if state.phase is Phase.WAITING or state.number in outcome.stops:
            if state.number not in outcome.promises:
                self._place_whole(state, allocation, state.job.workers.gang)
        elif state.phase is Phase.RUNNING and state.number not in outcome.resizes:
            if state.job.restarts or not self._cycle.untouched(state):
                return
            if elsewhere(self._cycle, state, allocation):
                self._place_whole(state, allocation, allocation.most)
            elif mixes(self._cycle, state, allocation):
                self._place_types(state, allocation)
            else:
                self._place_more(state, allocation)

    def _place_whole(self, state: JobState, allocation: Allocation, least: int) -> None:
        """Place a job that holds nothing by then, with the most workers that fit."""
        job, place = state.job, self._cycle.strategy(state.job)
        for workers in range(allocation.most, least - 1, -1):
            for option in options_for(self._cycle, job, allocation):
                request = self._cycle.options.request(job, workers, option, allocation.servers)
                if request in self._failed:
                    continue
                placement = place(self._board, request)
                if placement is None:
                    self._failed.add(request)
                elif self._take(state, _finder(place, request), placement.slots):
                    return
            self._short = True

    def _place_more(self, state: JobState, allocation: Allocation) -> None:
        """Place what a running job lacks."""
        assert state.placement is not None
        option = self._cycle.options.used_by(state.job, state.placement)
        if option is None or state.placement.count(Role.WORKER) >= allocation.most:
            return
        request = self._cycle.options.request(state.job, allocation.most, option, allocation.servers)
        found = rearranged(self._cycle, self._board, state, request)
        workers = found.count(Role.WORKER) if found else 0
        self._short = self._short or workers < allocation.most
        comes = _comes(state, found) if found else ()
        if workers <= state.placement.count(Role.WORKER):
            return

        def find(board: Board) -> Slots | None:
            again = rearranged(self._cycle, board, state, request)
            enough = again is not None and again.count(Role.WORKER) >= workers
            return _comes(state, again) if enough and again is not None else None

        self._take(state, find, comes)

    def _place_types(self, state: JobState, allocation: Allocation) -> None:
        """Place what a job on several types lacks."""

        def find(board: Board) -> Slots | None:
            found = unequal(self._cycle, board, state, allocation)
            return None if found is None else _comes(state, found)

        comes = find(self._board)
        if comes:
            self._take(state, find, comes)

    def _take(self, state: JobState, find: Callable[[Board], Slots | None], slots: Slots) -> bool:
        """Let a job have these, if the pools allow it once all changes are done."""
        job, quotas, amounts = state.job, self._cycle.quotas, self._cycle.amounts(slots)
        if quotas.overshoots(job, amounts, borrow=job.preemptible):
            return False
        taker = Taker(state, find, slots, amounts, quotas.within_reservation(job, amounts))
        self._takers.add(taker)
        self._board.take(slots)
        self._count(taker, 1)
        return True

    def _count(self, taker: Taker, sign: int) -> None:
        self._cycle.quotas.promise(taker.state.job, taker.amounts, sign)

    # What is taken back

    def reconsider(self, state: JobState) -> None:
        """Let a stopped job run on, unless somebody needs its devices."""
        held = self._usable(self._cycle.placement_of(state).slots)
        own = self._takers.of(state.number)
        if own is not None and self._changes(state, own):
            return
        if self._pools_allow(state, own) and self._makes_way(state, held, own):
            self._cycle.spare(state)

    def _pools_allow(self, state: JobState, own: Taker | None) -> bool:
        """Whether no pool exceeds its limit if the job runs on beside those that are to have more."""
        quotas, held = self._cycle.quotas, self._cycle.amounts(self._cycle.placement_of(state).slots)
        nothing_more = dict.fromkeys(held, 0)
        quotas.keep(state.job, held)
        if own is not None:
            self._count(own, -1)
        over = quotas.overshoots(state.job, nothing_more, borrow=True)
        for taker in reversed(tuple(self._takers)) if over and not state.keeps_work else ():
            if taker is not own and not self._outranks(taker, state):
                self._drop(taker)
                over = quotas.overshoots(state.job, nothing_more, borrow=True)
            if not over:
                break
        if own is not None:
            self._count(own, 1)
        quotas.give_back(state.job, held)
        return not over

    def _drop(self, taker: Taker) -> None:
        """Let a job have no more after all."""
        self._board.put_back(taker.slots)
        self._count(taker, -1)
        self._takers.remove(taker)
        self._short = True

    def _changes(self, state: JobState, own: Taker) -> bool:
        """Whether a job that is stopped to be changed would get other tasks than it has."""
        assert state.placement is not None
        then = Placement(own.slots)
        same = all(then.count(s.role) == state.placement.count(s.role) for s in state.job.roles)
        amounts = self._cycle.amounts
        return not same or own.amounts != amounts(state.placement.slots)

    def _makes_way(self, state: JobState, held: Slots, own: Taker | None) -> bool:
        """Place those that take the job's devices elsewhere; False: one that may have them must."""
        bits, free = Placement(held).bits(), self._board.free_devices(self._board.shelves)
        moved = self._takers.taking(bits)
        if own is not None and own not in moved:
            moved = in_turn([own, *moved])
        if moved and own is None and state.keeps_work and free < _devices(held):
            return False  # the quick answer where every device is given out
        self._lift(moved)
        if not self._board.has(held):  # cores or memory beside its devices are taken
            beside = [taker for taker in self._takers.beside(bits) if taker not in moved]
            self._lift(beside)
            moved += beside
        placed = self._place_again(state, held, [taker for taker in moved if taker is not own])
        if placed is None:
            self._settle(moved)
            return False
        kept = [taker for taker, _ in placed]
        for taker in moved:
            self._count(taker, -1)
            if taker not in kept:
                self._takers.remove(taker)
        for taker, slots in placed:
            self._takers.move(taker, slots)
            taker.amounts = self._cycle.amounts(slots)
            self._count(taker, 1)
        self._short = self._short or len(kept) < len(moved) - (own is not None)
        return True

    def _place_again(
        self, state: JobState, held: Slots, moved: list[Taker]
    ) -> list[tuple[Taker, Slots]] | None:
        """Place these beside the job; None: it is in the way of one that may have its devices."""
        placed: list[tuple[Taker, Slots]] = []
        fits = self._board.has(held)
        if fits:
            self._board.take(held)
        for taker in moved if fits else ():
            slots = taker.find(self._board)
            if slots is not None:
                self._board.take(slots)
                placed.append((taker, slots))
            elif state.keeps_work or self._outranks(taker, state):
                fits = False
                self._board.put_back(held)
                break
        if not fits:
            for _, slots in placed:
                self._board.put_back(slots)
        return placed if fits else None

    def _outranks(self, taker: Taker, state: JobState) -> bool:
        """Whether the taker may have devices of a job that would start over: by a higher priority, or
        within its pool's reservation from what another pool uses beyond its own."""
        job, other = taker.state.job, state.job
        if job.priority > other.priority:
            return True
        if job.pool == other.pool or not taker.reserved:
            return False
        held = self._cycle.amounts(self._cycle.placement_of(state).slots)
        return any(self._cycle.quotas.unreserved(other.pool, each) + held[each] > 0 for each in held)

    def restore(self, state: JobState) -> None:
        """Let a shrunk job keep the devices that nobody takes, if they were meant for others."""
        if not self._short or not self._better_off(state):
            return
        assert state.placement is not None
        smaller = self._cycle.outcome.resizes[state.number].placement
        gone = [slot for slot in state.placement.slots if slot not in smaller.slots]
        kept: list[Slot] = []
        for slot in self._usable(gone):
            if self._board.has((slot,)):
                self._board.take((slot,))
                kept.append(slot)
        apart = len(state.job.roles) > 1 and len(kept) < len(gone)
        if kept and not apart and self._legal(state, smaller.with_slots(kept)):
            self._cycle.unshrink(state, tuple(kept))
        else:
            self._board.put_back(kept)

    def _better_off(self, state: JobState) -> bool:
        """Whether the job only lost tasks, and is believed to be faster with them."""
        assert state.placement is not None
        smaller = self._cycle.outcome.resizes[state.number].placement
        if not set(smaller.slots) < set(state.placement.slots):
            return False
        outlook = self._cycle.view.outlooks.get(state.number)
        held = type_held(self._cycle.view, state)
        if outlook is None or held is None:
            return True
        more, fewer = (placed.count(Role.WORKER) for placed in (state.placement, smaller))
        return outlook.speed.rate(held, more) > outlook.speed.rate(held, fewer)

    def _legal(self, state: JobState, placement: Placement) -> bool:
        most = all(placement.count(spec.role) <= spec.most for spec in state.job.roles)
        return most and within_contract(self._cycle, state.job, placement)

    def explain(self, state: JobState) -> None:
        """Name the first job that gets the devices of a stopped one, and what the stop costs."""
        cycle = self._cycle
        if cycle.outcome.stops[state.number].code is not Code.PREEMPTED_POLICY:
            return
        slots = cycle.placement_of(state).slots
        bits = Placement(slots).bits()
        served = next(iter(self._takers.taking(bits)), None)
        cycle.outcome.stops[state.number] = Reason(
            self._code(state, served),
            beneficiary=served.state.job.name if served else None,
            cost=cycle.cost(state),
            lost=cycle.lost(state),
            served=served.state.number if served else 0,
        )

    def name_taker(self, state: JobState) -> None:
        """Name the first job that gets the devices which a shrunk one gives up."""
        assert state.placement is not None
        change = self._cycle.outcome.resizes[state.number]
        bits = state.placement.without(change.placement.slots).bits()
        served = next(iter(self._takers.taking(bits)), None)
        if served is not None:
            job = served.state.job
            reason = replace(change.reason, beneficiary=job.name, served=job.number)
            self._cycle.outcome.resizes[state.number] = replace(change, reason=reason)

    def _code(self, state: JobState, served: Taker | None) -> Code:
        """Whether another pool gets back what it is entitled to, or the policy prefers another job."""
        if served is None or served.state.job.pool == state.job.pool:
            return Code.PREEMPTED_POLICY
        held = self._cycle.amounts(self._cycle.placement_of(state).slots)
        excess = self._cycle.quotas.excess
        borrowed = any(excess(state.job.pool, each) + held[each] > 0 for each in held)
        return Code.PREEMPTED if borrowed else Code.PREEMPTED_POLICY

    def _usable(self, slots: Iterable[Slot]) -> Slots:
        """Return the slots that others could use: not those on draining nodes."""
        gone = self._cycle.standing.draining
        return tuple(slot for slot in slots if slot.node not in gone)

    def _lift(self, takers: Iterable[Taker]) -> None:
        for taker in takers:
            self._board.put_back(taker.slots)

    def _settle(self, takers: Iterable[Taker]) -> None:
        for taker in takers:
            self._board.take(taker.slots)


def _finder(place: Strategy, request: Request) -> Callable[[Board], Slots | None]:
    def find(board: Board) -> Slots | None:
        placement = place(board, request)
        return None if placement is None else placement.slots

    return find


def _comes(state: JobState, placement: Placement) -> Slots:
    """Return the slots that the job does not hold yet."""
    held = set(state.held())
    return tuple(slot for slot in placement.slots if slot not in held)


def _devices(slots: Iterable[Slot]) -> int:
    return sum(slot.bits.bit_count() for slot in slots)
