"""Reclaim borrowed devices: shrink jobs that have grown, preempt whole gangs, never more than needed.

A gang within its own pool's entitlement may take devices from:

* jobs of its own pool, down to their least;
* jobs whose pool, and each pool around it that is not also around the gang, is above its entitlement:
  down to their least, and preemptible gangs as a whole.

If the gang only uses what is lent to it, no other pool falls below its entitlement for it. If it is
within its pool's reservation, the claim is hard: a borrower's gang is preempted even if its pool falls
below its entitlement; and where nothing else makes room (`evict`), all use beyond a reservation counts
as borrowed.

The cheapest set is taken. A gang costs the work lost with it,

    devices x (seconds since its last checkpoint or start + pause)      [device-seconds]

so among equals the newest is preempted. Lower priorities come first. A gang that has no checkpoint to
continue from, and so would start over, comes after all others, and gives way only to a higher priority
or a hard claim.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from math import inf

from muster.core.cycle.cycle_state import CycleState, Victim
from muster.core.quotas.quotas import Bound
from muster.model.decision import Promise
from muster.model.job import Role
from muster.model.placement import Placement, Slot
from muster.model.reason import Code, Reason
from muster.model.topology import Level
from muster.model.view import JobState, Phase
from muster.place.clear import Candidate, Clearing, cheapest_clearing
from muster.place.contract import spanned
from muster.place.pack import pack
from muster.place.request import Request

FEW = 16
"""Number of the cheapest gangs tried before all of them."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A waiting gang's claim on one option."""

    state: JobState
    request: Request
    device_type: str
    hard: bool
    evict: bool
    """Take what pools have above their reservation, not only above their entitlement."""
    over: tuple[Bound, ...]
    """Bounds of pools around the gang that it would exceed."""


def reclaim(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """Shrink or preempt so that the gang can start; return its promise, or None."""
    return _reclaim(cycle, state, workers, evict=False)


def evict(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """The same for a gang within its reservation, against all use beyond others' reservations."""
    return _reclaim(cycle, state, workers, evict=True)


def _reclaim(cycle: CycleState, state: JobState, workers: int, *, evict: bool) -> Promise | None:
    for option in cycle.options.pure(state.job):
        request = cycle.options.request(state.job, workers, option)
        if not request.plan.devices:
            continue
        (device_type,) = cycle.options.types(option)
        amounts = {device_type: request.plan.devices}
        hard = cycle.quotas.within_reservation(state.job, amounts)
        over = tuple(cycle.quotas.overshoots(state.job, amounts))
        key = ("reclaim", state.job.pool, request, hard, evict, over, cycle.later().version)
        if key in cycle.hopeless or (evict and not hard):
            continue
        clearing = _cheapest(cycle, _Claim(state, request, device_type, hard, evict, over))
        if clearing is not None:
            _carry_out(cycle, state, clearing)
            return Promise(state.number, clearing.placement, Code.WAITING_RECLAIM, inf)
        cycle.hopeless.add(key)
    return None


def _cheapest(cycle: CycleState, claim: _Claim) -> Clearing | None:
    found = (_clear(cycle, claim, candidates) for candidates in _tiers(cycle, claim))
    return next(filter(None, found), None)


def _tiers(cycle: CycleState, claim: _Claim) -> Iterator[list[Candidate]]:
    """Yield candidates: growth alone, then gangs too, a few cheap ones before all of them."""
    mine, wanted = claim.state.job.pool, claim.device_type
    others = [pool for pool, kind in cycle.by_pool if kind == wanted and _owes(cycle, claim, pool)]
    grown = [
        candidate
        for pool in (mine, *others)
        for state in cycle.grown.get((pool, wanted), ())
        if cycle.untouched(state)
        for candidate in _growth(cycle, state)
    ]
    if grown or not claim.over:
        yield grown
    if not claim.hard and _at_best(cycle, claim, others, grown) < claim.request.plan.devices:
        return
    every = merge(*(cycle.victims(pool, wanted) for pool in others), key=lambda v: v[:-1])
    gangs = (victim for victim in every if _gives_way(claim, victim))
    cheap = list(islice(gangs, FEW))
    yield from _by_rank(cheap, [])
    dear = list(gangs)
    if dear or grown:
        yield from _by_rank(cheap + dear, grown)


def _at_best(cycle: CycleState, claim: _Claim, others: list[str], grown: list[Candidate]) -> int:
    """Return the devices free if every other pool gave back its whole excess."""
    excess = sum(cycle.quotas.excess(pool, claim.device_type) for pool in others)
    free = cycle.later().free_devices(claim.request.kinds)
    return free + excess + sum(candidate.devices for candidate in grown)


def _gives_way(claim: _Claim, victim: Victim) -> bool:
    """Whether the claim is strong enough for what a stop costs the gang."""
    starts_over, priority = victim[0]
    return not starts_over or claim.hard or claim.state.job.priority > priority


def _by_rank(victims: list[Victim], grown: list[Candidate]) -> Iterator[list[Candidate]]:
    """Yield gangs up to each rank, lowest first, with growth."""
    for rank in sorted({victim[0] for victim in victims}):
        whole = [victim[-1] for victim in victims if victim[0] <= rank]
        going = {candidate.job for candidate in whole}
        yield whole + [candidate for candidate in grown if candidate.job not in going]


def _owes(cycle: CycleState, claim: _Claim, pool: str) -> bool:
    """Whether another pool, and each pool around it but not the claim's, has an excess."""
    mine = claim.state.job.pool
    apart = cycle.quotas.apart(mine, pool)
    return pool != mine and all(_excess(cycle, claim, each) > 0 for each in apart)


def _excess(cycle: CycleState, claim: _Claim, pool: str) -> int:
    measure = cycle.quotas.unreserved if claim.evict else cycle.quotas.excess
    return measure(pool, claim.device_type)


def _clear(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> Clearing | None:
    """Clear what the pools around the gang must give back, then what else makes room for it."""
    candidates = _not_spoken_for(cycle, claim, candidates)
    due = _due(cycle, claim, candidates)
    if due is None:
        return None
    # Across nodes the search is greedy, so it only sees what may all be removed together.
    wide = claim.request.widest > Level.NODE
    shown = _fair_part(cycle, claim, candidates) if wide else candidates
    rest = [candidate for candidate in shown if candidate not in due]

    def good(clearing: Clearing) -> bool:
        return _is_fair(cycle, claim, [*due, *clearing.removed])

    board = cycle.later()
    with board.lifted(slot for candidate in due for slot in candidate.slots):
        found = cheapest_clearing(board, claim.request, rest, good)
    if found is None:
        return None
    if not found.removed and not due:
        return found  # enough has been freed for others
    if due:
        return _spared(cycle, claim, Clearing((*due, *found.removed), found.placement), due)
    return _alone(cycle, claim, candidates, found) or found


def _not_spoken_for(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> list[Candidate]:
    """Return candidates whose devices are not promised to an older job of the pool."""
    spoken = [
        promise.placement.bits()
        for promise in cycle.reserved()
        if cycle.view.jobs[promise.job].job.pool == claim.state.job.pool
    ]
    return [
        candidate
        for candidate in candidates
        if not any(s.bits & bits.get(s.node, 0) for bits in spoken for s in candidate.slots)
    ]


def _alone(
    cycle: CycleState, claim: _Claim, candidates: list[Candidate], found: Clearing
) -> Clearing | None:
    """Return the cheapest single candidate that makes room at no more cost than what was found: one
    job rather than several, a small one rather than a large one."""
    short = claim.request.plan.devices - cycle.later().free_devices(claim.request.kinds)
    enough = [c for c in candidates if c.devices >= short and c.cost <= found.cost]
    for candidate in sorted(enough, key=lambda c: (c.cost, c.job))[:FEW]:
        if _is_fair(cycle, claim, [candidate]):
            placement = _without(cycle, claim, [candidate])
            if placement is not None:
                return Clearing((candidate,), placement)
    return None


def _without(cycle: CycleState, claim: _Claim, removed: list[Candidate]) -> Placement | None:
    """Return the gang's placement if these were removed."""
    board = cycle.later()
    with board.lifted(slot for candidate in removed for slot in candidate.slots):
        return pack(board, claim.request)


def _due(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> list[Candidate] | None:
    """Return the cheapest candidates that bring every pool around the gang within its bounds."""
    due: list[Candidate] = []
    fair = _fair_part(cycle, claim, candidates) if claim.over else []
    for bound in claim.over:
        lacking = bound.over - sum(c.devices for c in due if _counts(cycle, bound, c))
        for candidate in fair:
            if lacking <= 0:
                break
            if candidate not in due and _counts(cycle, bound, candidate):
                due.append(candidate)
                lacking -= candidate.devices
        if lacking > 0:
            return None
    return due


def _counts(cycle: CycleState, bound: Bound, candidate: Candidate) -> bool:
    """Whether the candidate's devices count for this bound."""
    job = cycle.view.jobs[candidate.job].job
    if bound.code is Code.WAITING_RESERVATION and job.preemptible:
        return False
    if bound.user not in ("", job.user):
        return False
    return bound.pool in cycle.quotas.around(job.pool)


def _spared(cycle: CycleState, claim: _Claim, clearing: Clearing, due: list[Candidate]) -> Clearing:
    """Drop candidates that one bound required but that are not needed after all."""
    for candidate in sorted(due, key=lambda c: (-c.cost, c.job)):
        fewer = [c for c in clearing.removed if c is not candidate]
        enough = all(
            sum(c.devices for c in fewer if _counts(cycle, bound, c)) >= bound.over
            for bound in claim.over
        )
        placement = _without(cycle, claim, fewer) if enough and _is_fair(cycle, claim, fewer) else None
        if placement is not None:
            clearing = Clearing(tuple(fewer), placement)
    return clearing


def _is_fair(cycle: CycleState, claim: _Claim, removed: list[Candidate]) -> bool:
    if len(_fair_part(cycle, claim, removed)) < len(removed):
        return False
    shrunk = _shrunk(removed)
    return all(_keeps_contract(cycle, cycle.view.jobs[job], shrunk[job]) for job in shrunk)


def _fair_part(cycle: CycleState, claim: _Claim, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return the cheapest candidates, from each other pool no more than its excess."""
    mine, lost = claim.state.job.pool, Counter[str]()
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: c.rate):
        holder = cycle.view.jobs[candidate.job].job.pool
        pools = cycle.quotas.apart(mine, holder)
        # A hard claim may take one gang larger than the excess, but none after that.
        size = 1 if claim.hard else candidate.devices
        if all(lost[pool] + size <= _excess(cycle, claim, pool) for pool in pools):
            lost.update(dict.fromkeys(pools, candidate.devices))
            kept.append(candidate)
    return kept


def _keeps_contract(cycle: CycleState, state: JobState, leaving: list[Slot]) -> bool:
    """Whether the contract holds with fewer devices, for which it may be stricter."""
    if state.job.locality.max_slowdown is None:
        return True
    left = cycle.placement_of(state).without(leaving)
    option = cycle.options.used_by(state.job, left) or cycle.options.of(state.job)[-1]
    return spanned(cycle.view.cluster, left) <= cycle.options.widest(state.job, left.devices, option)


def _growth(cycle: CycleState, state: JobState) -> list[Candidate]:
    """Return each worker above the job's least, the last to join first."""
    if state.phase is not Phase.RUNNING or state.number in cycle.settled:
        return []
    workers = [s for s in cycle.placement_of(state).slots if s.role is Role.WORKER]
    above = sorted(workers, key=lambda s: s.index)[cycle.least(state.job) :]
    pause = cycle.view.resize_pause(state)
    return [
        Candidate(state.number, (slot,), pause * slot.bits.bit_count(), whole=False)
        for slot in reversed(above)
    ]


def _shrunk(removed: Iterable[Candidate]) -> dict[int, list[Slot]]:
    """Return the slots lost by jobs that keep their gang."""
    shrunk: dict[int, list[Slot]] = defaultdict(list)
    for candidate in removed:
        if not candidate.whole:
            shrunk[candidate.job].extend(candidate.slots)
    return shrunk


def _carry_out(cycle: CycleState, state: JobState, clearing: Clearing) -> None:
    cost: dict[int, float] = defaultdict(float)
    for candidate in clearing.removed:
        cost[candidate.job] += candidate.cost
        if candidate.whole:
            victim, name = cycle.view.jobs[candidate.job], state.job.name
            cycle.stop(
                victim,
                Reason(
                    Code.PREEMPTED,
                    beneficiary=name,
                    cost=cycle.cost(victim),
                    lost=cycle.lost(victim),
                    served=state.number,
                ),
            )
    for number, slots in _shrunk(clearing.removed).items():
        name, lost = state.job.name, cost[number]
        reason = Reason(Code.SHRUNK, beneficiary=name, cost=lost, served=state.number)
        cycle.shrink(cycle.view.jobs[number], tuple(slots), reason)
