"""Take back what is borrowed: shrink what has grown, preempt whole gangs, never more than needed.

Who may lose devices to a gang that is inside its own pool's entitlement:

* jobs of its own pool, down to their least;
* jobs of pools (branches of the tree) above their entitlement: down to their least, and preemptible
  gangs as a whole.

If the gang is within its pool's reservation, that right is hard: a borrower's gang goes even if its
pool ends up below its entitlement. If the gang itself only uses what is lent to it, no other
pool is pushed below its entitlement for it.

Of the possible sets the cheapest goes; what a gang costs is what is lost with it,

    devices x (seconds since its last checkpoint or start + pause)      [device-seconds]

so that of equals the newest goes. Lower priorities go before higher ones.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from muster.core.desk import Desk, lapse
from muster.model.decision import Promise
from muster.model.job import Role
from muster.model.placement import Slot
from muster.model.reason import Code, Reason
from muster.model.topology import Level
from muster.model.view import JobState, Phase
from muster.place.clear import Candidate, Clearing, cheapest_clearing
from muster.place.request import Request


@dataclass(frozen=True, slots=True)
class _Claim:
    """A waiting gang's claim on one option."""

    state: JobState
    request: Request
    device_type: str
    hard: bool


def reclaim(desk: Desk, state: JobState, workers: int) -> Promise | None:
    """Decide to shrink or preempt so that the gang can start; its promise, or None."""
    for option in desk.options(state.job):
        types = desk.types(option)
        request = desk.request(state.job, workers, option)
        if len(types) != 1 or not request.plan.devices:
            continue
        amounts = {types[0]: request.plan.devices}
        hard = desk.books.within_reservation(state.job, amounts)
        claim = _Claim(state, request, types[0], hard)
        over = desk.books.overshoot(state.job, amounts)
        clearing = _from_own_pool(desk, claim, over) if over > 0 else _cheapest(desk, claim)
        if clearing is not None:
            _carry_out(desk, state, clearing)
            return Promise(state.name, clearing.placement, Code.WAITING_RECLAIM, lapse(desk))
    return None


def _from_own_pool(desk: Desk, claim: _Claim, over: int) -> Clearing | None:
    """Where the pool itself is full: shrink its own grown jobs, by the overshoot and until it fits."""
    states = desk.by_pool().get((claim.state.job.pool, claim.device_type), [])
    grown = [each for s in states if desk.untouched(s) for each in _growth(desk, s)]
    freed = 0
    for count, candidate in enumerate(grown, start=1):
        freed += candidate.devices
        if freed >= over:
            with desk.board.lifted(slot for each in grown[:count] for slot in each.slots):
                placement = desk.place(claim.state.job, claim.request)
            if placement is not None:
                return Clearing(tuple(grown[:count]), placement)
    return None


def _cheapest(desk: Desk, claim: _Claim) -> Clearing | None:
    """Growth alone if that does; else with gangs, bringing in higher priorities only when needed."""
    losers = [s for s in _losers(desk, claim) if desk.untouched(s)]
    if not losers:
        return None
    grown = [each for s in losers for each in _growth(desk, s)]
    clearing = _clear(desk, claim, grown)
    if clearing is not None:
        return clearing
    gangs = [s for s in losers if s.job.preemptible and s.job.pool != claim.state.job.pool]
    gangs = [s for s in gangs if s.name not in desk.outcome.resizes]
    for priority in sorted({s.job.priority for s in gangs}):
        going = {s.name for s in gangs if s.job.priority <= priority}
        whole = [_gang(desk, s) for s in gangs if s.name in going]
        rest = [candidate for candidate in grown if candidate.job not in going]
        clearing = _clear(desk, claim, whole + rest)
        if clearing is not None:
            return clearing
    return None


def _losers(desk: Desk, claim: _Claim) -> list[JobState]:
    """Jobs of the claim's own pool that have grown, and all of pools above their entitlement."""
    mine = claim.state.job.pool
    losers: list[JobState] = []
    for (pool, device_type), states in desk.by_pool().items():
        if device_type != claim.device_type:
            continue
        if pool == mine:
            losers += [s for s in states if _has_grown(desk, s)]
        elif desk.books.excess(mine, pool, device_type) > 0:
            losers += states
    return losers


def _has_grown(desk: Desk, state: JobState) -> bool:
    workers = desk.placement_of(state).count(Role.WORKER)
    return workers > desk.allocations[state.name].least


def _clear(desk: Desk, claim: _Claim, candidates: list[Candidate]) -> Clearing | None:
    if claim.request.widest > Level.NODE:
        # Across nodes the search is greedy, so it is only shown what may all go together.
        candidates = _fair_part(desk, claim, candidates)
    if not candidates:
        return None
    return cheapest_clearing(
        desk.board,
        claim.request,
        candidates,
        lambda clearing: len(_fair_part(desk, claim, clearing.removed)) == len(clearing.removed),
    )


def _fair_part(desk: Desk, claim: _Claim, candidates: Iterable[Candidate]) -> list[Candidate]:
    """The cheapest candidates, from each branch of the tree no more than its excess allows."""
    mine = claim.state.job.pool
    lost: dict[str | None, int] = defaultdict(int)
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: (c.cost / max(1, c.devices), c.job)):
        holder = desk.view.jobs[candidate.job].job.pool
        branch = desk.books.branch(mine, holder)
        excess = inf if branch is None else desk.books.excess(mine, holder, claim.device_type)
        # A hard claim may take a gang that is larger than the excess, but no gang after that.
        if lost[branch] + (1 if claim.hard else candidate.devices) <= excess:
            lost[branch] += candidate.devices
            kept.append(candidate)
    return kept


def _growth(desk: Desk, state: JobState) -> list[Candidate]:
    """Each worker above the job's least by itself, the last to have joined first."""
    if state.phase is not Phase.RUNNING:
        return []
    workers = [s for s in desk.placement_of(state).slots if s.role is Role.WORKER]
    above = sorted(workers, key=lambda s: s.index)[desk.allocations[state.name].least :]
    return [_one(state, slot) for slot in reversed(above)]


def _one(state: JobState, slot: Slot) -> Candidate:
    return Candidate(state.name, (slot,), state.job.pause * slot.bits.bit_count(), whole=False)


def _gang(desk: Desk, state: JobState) -> Candidate:
    slots = desk.placement_of(state).slots
    devices = sum(slot.bits.bit_count() for slot in slots)
    safe_since = max(state.started or 0.0, state.checkpointed or 0.0)
    lost = max(0.0, desk.now - safe_since) + state.job.pause
    return Candidate(state.name, slots, devices * lost)


def _carry_out(desk: Desk, state: JobState, clearing: Clearing) -> None:
    shrunk: dict[str, list[Slot]] = defaultdict(list)
    cost: dict[str, float] = defaultdict(float)
    for candidate in clearing.removed:
        cost[candidate.job] += candidate.cost
        if candidate.whole:
            reason = Reason(Code.PREEMPTED, beneficiary=state.name, cost=candidate.cost)
            desk.stop(desk.view.jobs[candidate.job], reason)
        else:
            shrunk[candidate.job].extend(candidate.slots)
    for name, slots in shrunk.items():
        reason = Reason(Code.SHRUNK, beneficiary=state.name, cost=cost[name])
        desk.shrink(desk.view.jobs[name], tuple(slots), reason)
