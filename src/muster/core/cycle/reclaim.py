"""Take back what is borrowed: shrink what has grown, preempt whole gangs, never more than needed.

Who may lose devices to a gang that is inside its own pool's entitlement:

* jobs of its own pool, down to their least;
* jobs of pools above their entitlement, and in no pool (short of those around the gang) that is not:
  down to their least, and preemptible gangs as a whole.

If the gang itself only uses what is lent to it, no other pool is pushed below its entitlement for it.
If the gang is within its pool's reservation, that right is hard: a borrower's gang goes even if its
pool ends up below its entitlement; and where nothing else makes room (`evict`), whatever is not
reserved by those who use it is borrowed.

Of the possible sets the cheapest goes; what a gang costs is what is lost with it,

    devices x (seconds since its last checkpoint or start + pause)      [device-seconds]

so that of equals the newest goes. Lower priorities go before higher ones.
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
"""Gangs looked at first, the cheapest; all of them only if that does not do."""


@dataclass(frozen=True, slots=True)
class _Claim:
    """A waiting gang's claim on one option."""

    state: JobState
    request: Request
    device_type: str
    hard: bool
    evict: bool
    """Whether pools lose what they have above their reservation, not only above their entitlement."""
    over: tuple[Bound, ...]
    """What the pools around the gang must give back before they may take it."""


def reclaim(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """Decide to shrink or preempt so that the gang can start; its promise, or None."""
    return _reclaim(cycle, state, workers, evict=False)


def evict(cycle: CycleState, state: JobState, workers: int) -> Promise | None:
    """The same for a gang within its reservation, against whatever others use beyond theirs."""
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
    return next((clearing for clearing in found if clearing is not None), None)


def _tiers(cycle: CycleState, claim: _Claim) -> Iterator[list[Candidate]]:
    """Who may go: growth alone, then gangs too, a few cheap ones before all of them."""
    mine, wanted = claim.state.job.pool, claim.device_type
    others = [pool for pool, kind in cycle.by_pool() if kind == wanted and _owes(cycle, claim, pool)]
    grown = [
        candidate
        for pool in (mine, *others)
        for state in cycle.grown().get((pool, wanted), ())
        if cycle.untouched(state)
        for candidate in _growth(cycle, state)
    ]
    if grown or not claim.over:
        yield grown
    if not claim.hard and _at_best(cycle, claim, others, grown) < claim.request.plan.devices:
        return
    gangs = merge(*(cycle.victims(pool, wanted) for pool in others), key=lambda v: v[:-1])
    cheap = list(islice(gangs, FEW))
    yield from _by_priority(cheap, [])
    dear = list(gangs)
    if dear or grown:
        yield from _by_priority(cheap + dear, grown)


def _at_best(cycle: CycleState, claim: _Claim, others: list[str], grown: list[Candidate]) -> int:
    """Devices there would be if every other pool gave back all it has too much."""
    excess = sum(cycle.quotas.excess(pool, claim.device_type) for pool in others)
    free = cycle.later().free_devices(claim.request.kinds)
    return free + excess + sum(candidate.devices for candidate in grown)


def _by_priority(victims: list[Victim], grown: list[Candidate]) -> Iterator[list[Candidate]]:
    """The gangs of the lowest priority, then those of the next as well, and so on; growth with each."""
    for priority in sorted({victim[0] for victim in victims}):
        whole = [victim[-1] for victim in victims if victim[0] <= priority]
        going = {candidate.job for candidate in whole}
        yield whole + [candidate for candidate in grown if candidate.job not in going]


def _owes(cycle: CycleState, claim: _Claim, pool: str) -> bool:
    """Whether another pool, and each around it that is not also around the claim's, has too much."""
    mine = claim.state.job.pool
    apart = cycle.quotas.apart(mine, pool)
    return pool != mine and all(_excess(cycle, claim, each) > 0 for each in apart)


def _excess(cycle: CycleState, claim: _Claim, pool: str) -> int:
    measure = cycle.quotas.unreserved if claim.evict else cycle.quotas.excess
    return measure(pool, claim.device_type)


def _clear(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> Clearing | None:
    """First what the pools around the gang must give back, then what else makes room for it."""
    candidates = _not_spoken_for(cycle, claim, candidates)
    due = _due(cycle, claim, candidates)
    if due is None:
        return None
    # Across nodes the search is greedy, so it is only shown what may all go together.
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
        return found  # others have left it enough
    if due:
        return _spared(cycle, claim, Clearing((*due, *found.removed), found.placement), due)
    return _alone(cycle, claim, candidates, found) or found


def _not_spoken_for(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> list[Candidate]:
    """Those on whose devices no older job of the pool waits: it would never get them."""
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
    """The cheapest candidate that makes room by itself, where it costs no more than what was found:
    rather one job than several, and rather a small one than a large one."""
    short = claim.request.plan.devices - cycle.later().free_devices(claim.request.kinds)
    enough = [c for c in candidates if c.devices >= short and c.cost <= found.cost]
    for candidate in sorted(enough, key=lambda c: (c.cost, c.job))[:FEW]:
        if _is_fair(cycle, claim, [candidate]):
            placement = _without(cycle, claim, [candidate])
            if placement is not None:
                return Clearing((candidate,), placement)
    return None


def _without(cycle: CycleState, claim: _Claim, removed: list[Candidate]) -> Placement | None:
    """Where the gang would be if these were gone."""
    board = cycle.later()
    with board.lifted(slot for candidate in removed for slot in candidate.slots):
        return pack(board, claim.request)


def _due(cycle: CycleState, claim: _Claim, candidates: list[Candidate]) -> list[Candidate] | None:
    """The cheapest candidates that bring every pool around the gang to where it may take it."""
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
    """Whether what the candidate gives back helps the pool to keep the rule."""
    job = cycle.view.jobs[candidate.job].job
    if bound.code is Code.WAITING_RESERVATION and job.preemptible:
        return False
    return bound.pool in cycle.quotas.around(job.pool)


def _spared(cycle: CycleState, claim: _Claim, clearing: Clearing, due: list[Candidate]) -> Clearing:
    """Leave out what was due by one rule and is not needed after all."""
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
    """The cheapest candidates, from each pool that others are in no more than its excess allows."""
    mine, lost = claim.state.job.pool, Counter[str]()
    kept: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda c: c.rate):
        holder = cycle.view.jobs[candidate.job].job.pool
        pools = cycle.quotas.apart(mine, holder)
        # A hard claim may take a gang that is larger than the excess, but no gang after that.
        size = 1 if claim.hard else candidate.devices
        if all(lost[pool] + size <= _excess(cycle, claim, pool) for pool in pools):
            lost.update(dict.fromkeys(pools, candidate.devices))
            kept.append(candidate)
    return kept


def _keeps_contract(cycle: CycleState, state: JobState, leaving: list[Slot]) -> bool:
    """With fewer devices the best placement is closer, and the same slowdown means less."""
    if state.job.locality.max_slowdown is None:
        return True
    left = cycle.placement_of(state).without(leaving)
    option = cycle.options.used_by(state.job, left) or cycle.options.of(state.job)[-1]
    return spanned(cycle.view.cluster, left) <= cycle.options.widest(state.job, left.devices, option)


def _growth(cycle: CycleState, state: JobState) -> list[Candidate]:
    """Each worker above the job's least by itself, the last to have joined first."""
    if state.phase is not Phase.RUNNING:
        return []
    workers = [s for s in cycle.placement_of(state).slots if s.role is Role.WORKER]
    above = sorted(workers, key=lambda s: s.index)[cycle.least(state.job) :]
    return [_one(state, slot) for slot in reversed(above)]


def _one(state: JobState, slot: Slot) -> Candidate:
    return Candidate(state.number, (slot,), state.job.pause * slot.bits.bit_count(), whole=False)


def _shrunk(removed: Iterable[Candidate]) -> dict[int, list[Slot]]:
    """The slots that jobs lose which keep their gang."""
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
            reason = Reason(Code.PREEMPTED, beneficiary=state.job.name, cost=candidate.cost)
            cycle.stop(cycle.view.jobs[candidate.job], reason)
    for number, slots in _shrunk(clearing.removed).items():
        reason = Reason(Code.SHRUNK, beneficiary=state.job.name, cost=cost[number])
        cycle.shrink(cycle.view.jobs[number], tuple(slots), reason)
