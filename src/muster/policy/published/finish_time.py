"""Finish-time fairness: minimise the largest delay caused by sharing.

Source: Mahajan et al., "Themis", NSDI'20, with the formula of Gavel (OSDI'20). With F the
devices of a job's part of the cluster, all devices over the number of jobs that want some, times in s,

    rho = (time since submission + left / speed) / (alone so far + left / speed alone)

minimise the largest rho. The speed is that on the workers given; alone it is that on F devices, of each
type for the part of the time that the type has of all devices; F below the gang is the gang for part of
the time, F above what the job can use is that. Alone so far is what it has attained (device-s) / F:
each device-second counts as if it had been alone, since a view does not say how much work is done.

Every job gets its gang, then the job with the largest rho repeatedly gets the fewest further workers
that lower it; a job that cannot have them is dropped. For one device type this finds the least largest
rho, as a bisection would: rho falls with what a job gets, and until the largest is below some target no
job has more than it needs for that target. It then lowers the second largest, and so on: nothing is
left over, and limits of pools need no special case. If not every gang fits: the largest rho first, each
counted with its gang.

As in Themis, shares change only when leases end: every 360 s (Gavel's round). In between, waiting jobs
are dealt what is free in the same way.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf

from muster.model.pool import Entitlements
from muster.model.reason import Measure
from muster.model.view import View
from muster.policy.base import Merits, Shares
from muster.policy.merits import ranked
from muster.policy.room import Room, in_change
from muster.policy.unknown import Crowd, Prospect, prospects

LEASE = 360.0
"""s between deals."""
_INSTANT = 1e-9
"""s; a job that ends as soon as it begins still has a rho."""

_Hand = tuple[str, int]
"""A device type and workers."""
_NOTHING: _Hand = ("", 0)


@dataclass(frozen=True, slots=True)
class Leases:
    """Memory: the deal, and until when it holds."""

    until: float
    dealt: Mapping[int, _Hand] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FinishTime:
    """Least largest delay by sharing."""

    name: str = "finish-time"
    informed: bool = True

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate workers; deal again if the lease has ended."""
        room = Room(view, entitlements)
        queue = prospects(view, room.movable, now)
        past = memory if isinstance(memory, Leases) else Leases(now)
        claims = _claims(view, queue, room, entitlements, now)
        hands = _kept(claims, past.dealt if now < past.until else {}, room)
        fresh = [claim for claim in claims if claim.number not in hands]
        hands |= _raised(fresh, _begun(fresh, room, Crowd(entitlements.capacity)), room)
        allocations = tuple(
            each.gets(*(hands.get(each.job.number, _NOTHING) if each.each else ("", each.gang)))
            for each in queue
        )
        movable = {state.number for state in room.movable}
        hands |= in_change(view, (s for s in view.jobs.values() if s.number not in movable))
        until = past.until if now < past.until else now + LEASE
        leases = Leases(until if hands else now, hands)  # a deal of nothing binds nobody
        again = until if claims else inf
        return Shares(allocations, leases, True, again, partial(_merits, claims, room))


@dataclass(frozen=True, slots=True)
class _Claim:
    """A job, and the times of its rho that do not depend on the deal, in s."""

    prospect: Prospect
    waited: float
    """Since submission."""
    alone: float
    """From submission to end, in its part of the cluster."""

    @property
    def number(self) -> int:
        return self.prospect.job.number

    def rho(self, device_type: str, workers: int) -> float:
        """Return its end with sharing over its end alone."""
        time = self.prospect.time(device_type, workers)
        return (self.waited + time) / self.alone if time < inf else inf

    def worst(self, room: Room) -> float:
        """Return rho with its gang, on its best type."""
        types = room.types(self.prospect.job)
        return min((self.rho(each, self.prospect.gang) for each in types), default=inf)


def _claims(
    view: View, queue: Iterable[Prospect], room: Room, entitlements: Entitlements, now: float
) -> list[_Claim]:
    """Return every job that needs devices, with its time alone."""
    jobs = sum(1 for state in view.jobs.values() if state.job.workers.need.devices)
    claims = []
    for each in queue:
        if each.each:
            part = {one: entitlements.capacity[one] / jobs for one in room.types(each.job)}
            alone = _alone(each, part, now)
            claims.append(_Claim(each, max(0.0, now - each.state.submitted), alone))
    return claims


def _merits(claims: Iterable[_Claim], room: Room) -> Merits:
    return ranked(Measure.DELAY, [(claim.number, claim.worst(room)) for claim in claims])


def _alone(prospect: Prospect, part: Mapping[str, float], now: float) -> float:
    """Return the s from submission to end if it always had its part of the cluster, by type."""
    devices = min(sum(part.values()), float(prospect.most * prospect.each))
    if devices <= 0:
        return inf
    speed = sum(
        share / sum(part.values()) * _speed(prospect, device_type, devices / prospect.each)
        for device_type, share in part.items()
    )
    left = prospect.left / speed if speed > 0 else inf
    return max(_INSTANT, prospect.state.attained(now) / devices + left)


def _speed(prospect: Prospect, device_type: str, workers: float) -> float:
    """Return the work per s, interpolated between numbers of workers, linear below the gang."""
    if workers <= prospect.gang:
        return prospect.rate(device_type, prospect.gang) * workers / prospect.gang
    below = int(workers)
    low = prospect.rate(device_type, below)
    if workers == below:
        return low
    return low + (workers - below) * (prospect.rate(device_type, below + 1) - low)


def _kept(claims: Iterable[_Claim], dealt: Mapping[int, _Hand], room: Room) -> dict[int, _Hand]:
    """Return earlier deals that still fit."""
    kept: dict[int, _Hand] = {}
    for claim in claims:
        device_type, workers = dealt.get(claim.number, _NOTHING)
        job = claim.prospect.job
        if workers and room.most(job, device_type) >= workers:
            room.take(job, device_type, workers)
            kept[claim.number] = (device_type, workers)
    return kept


def _begun(claims: Iterable[_Claim], room: Room, crowd: Crowd) -> dict[int, _Hand]:
    """Deal gangs, the largest rho first, each on the best type with room."""
    hands: dict[int, _Hand] = {}
    for claim in sorted(claims, key=lambda claim: -claim.worst(room)):
        chosen = claim.prospect.choose_type(room, crowd)
        if chosen is not None:
            room.take(claim.prospect.job, chosen, claim.prospect.gang)
            hands[claim.number] = (chosen, claim.prospect.gang)
    return hands


def _raised(claims: list[_Claim], hands: dict[int, _Hand], room: Room) -> dict[int, _Hand]:
    """Add workers to the job with the largest rho, until none can have more."""
    worst = [
        (-claim.rho(*hands[claim.number]), at)
        for at, claim in enumerate(claims)
        if claim.number in hands
    ]
    heapify(worst)
    while worst:
        _, at = heappop(worst)
        claim = claims[at]
        device_type, workers = hands[claim.number]
        more = _more(claim, device_type, workers, room)
        if more:
            room.take(claim.prospect.job, device_type, more)
            hands[claim.number] = (device_type, workers + more)
            heappush(worst, (-claim.rho(device_type, workers + more), at))
    return hands


def _more(claim: _Claim, device_type: str, workers: int, room: Room) -> int:
    """Return the fewest further workers that make the job faster; 0: none do."""
    prospect = claim.prospect
    rate = prospect.rate(device_type, workers)
    most = min(prospect.most - workers, room.most(prospect.job, device_type))
    return next((n for n in range(1, most + 1) if prospect.rate(device_type, workers + n) > rate), 0)


POLICIES = (FinishTime(),)
