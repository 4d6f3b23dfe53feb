"""Dominant resource fairness over devices, cores and memory.

Source: Ghodsi et al., NSDI 2011, "Dominant resource fairness: fair allocation of multiple resource
types".

Rule: the dominant share of a job (or of a user with all their jobs) is the largest of its shares

    share = max over resources r of  held[r] / there[r]                                  (no unit)

of devices of each type, thousandths of a core and bytes of memory, servers included. Progressive
filling: the smallest dominant share gets the next task, until nothing more fits. Gangs are admitted
whole, the oldest of the highest priority first; then workers one by one, with the servers that go with
them. The paper shares among users, Optimus' evaluation among jobs.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Literal

from muster.model.cluster import Cluster, NodeState
from muster.model.job import Job
from muster.model.pool import Entitlements
from muster.model.reason import Measure
from muster.model.view import JobState, Phase, View
from muster.planner.counts import plan_for
from muster.policy.base import Allocation, Merits, Shares, exactly
from muster.policy.room import Room, type_held


@dataclass(frozen=True, slots=True)
class Drf:
    """One task at a time to the smallest dominant share."""

    name: str = "drf"
    informed: bool = False
    by: Literal["job", "user"] = "job"
    """Share among jobs or users."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate to every job that can be changed."""
        pot = _Pot(view, entitlements)
        owners: dict[str | int, _Owner] = {}
        bids = [_Bid(state) for state in sorted(pot.room.movable, key=_seniority)]
        for bid in bids:
            owners.setdefault(self._owner(bid.state.job), _Owner()).waiting.append(bid)
        for job, held in pot.kept:
            if self.by == "user" and job.user in owners:
                owners[job.user].held.add(held)
        _fill(pot, list(owners.values()))
        answer = tuple(_allocation(pot, bid) for bid in bids)
        return Shares(answer, memory, steers=True, merits=partial(_merits, bids, pot))

    def _owner(self, job: Job) -> str | int:
        return job.user if self.by == "user" else job.number


class _Holding:
    """An amount of each resource: devices by type, thousandths of a core, bytes."""

    def __init__(
        self, devices: Iterable[tuple[str, int]] = (), cores: int = 0, memory: int = 0
    ) -> None:
        self.devices = dict(devices)
        self.cores = cores
        self.memory = memory

    def add(self, other: "_Holding") -> None:
        for device_type, amount in other.devices.items():
            self.devices[device_type] = self.devices.get(device_type, 0) + amount
        self.cores += other.cores
        self.memory += other.memory

    def dominant(self, there: "_Holding") -> float:
        """Return the largest share of the total."""
        pairs = [(amount, there.devices.get(each, 0)) for each, amount in self.devices.items()]
        pairs += [(self.cores, there.cores), (self.memory, there.memory)]
        return max((held / whole for held, whole in pairs if whole), default=0.0)


@dataclass(slots=True)
class _Bid:
    """A job during filling."""

    state: JobState
    workers: int = 0
    device_type: str | None = None
    held: _Holding = field(default_factory=_Holding)

    def next_workers(self) -> int:
        """Return its workers after the next step: the gang first, then one more."""
        return self.workers + 1 if self.workers else self.state.job.workers.gang


@dataclass(slots=True)
class _Owner:
    """A job, or a user with several jobs."""

    waiting: deque[_Bid] = field(default_factory=deque)
    """Not admitted yet, in order."""
    growing: list[_Bid] = field(default_factory=list)
    held: _Holding = field(default_factory=_Holding)

    def step(self, pot: "_Pot") -> bool:
        """Take one gang or one worker; False: nothing fits any more."""
        while self.waiting:  # what does not fit now never will: the pot only empties
            bid = self.waiting.popleft()
            if pot.give(bid, self):
                self.growing.append(bid)
                return True
        while self.growing:
            bid = min(self.growing, key=lambda each: each.held.dominant(pot.there))
            if bid.workers < bid.state.job.workers.most and pot.give(bid, self):
                return True
            self.growing.remove(bid)
        return False


class _Pot:
    """The total, and what is left of it."""

    def __init__(self, view: View, entitlements: Entitlements) -> None:
        self.view = view
        self.room = Room(view, entitlements)
        self.there = _total(view.cluster, entitlements)
        self.cores, self.memory = self.there.cores, self.there.memory
        movable = {state.number for state in self.room.movable}
        stay = (
            s for s in view.jobs.values() if s.number not in movable and s.phase is not Phase.PREEMPTING
        )
        self.kept = [(state.job, _held(view.cluster, state)) for state in stay]
        for _, held in self.kept:
            self.cores -= held.cores
            self.memory -= held.memory

    def give(self, bid: _Bid, owner: _Owner) -> bool:
        """Give the job its next step if it fits."""
        job, workers = bid.state.job, bid.next_workers()
        now, then = plan_for(job, bid.workers) if bid.workers else None, plan_for(job, workers)
        cores = then.millicores - (now.millicores if now else 0)
        memory = then.memory - (now.memory if now else 0)
        if cores > self.cores or memory > self.memory:
            return False
        devices = then.devices - (now.devices if now else 0)
        if job.workers.need.devices:
            device_type = self._type(bid, workers - bid.workers)
            if device_type is None:
                return False
            self.room.take(job, device_type, workers - bid.workers)
            bid.device_type = device_type
        part = _Holding([(bid.device_type, devices)] if bid.device_type else (), cores, memory)
        self.cores -= cores
        self.memory -= memory
        bid.workers = workers
        bid.held.add(part)
        owner.held.add(part)
        return True

    def _type(self, bid: _Bid, more: int) -> str | None:
        """Return the first type with room, the current one first, as changing costs a restart."""
        job = bid.state.job
        types = (bid.device_type,) if bid.device_type else self.room.types(job)
        held = type_held(self.view, bid.state) if len(types) > 1 else None
        ordered = (held, *types) if held else types
        return next((each for each in ordered if self.room.most(job, each) >= more), None)


def _fill(pot: _Pot, owners: list[_Owner]) -> None:
    heap = [(owner.held.dominant(pot.there), place) for place, owner in enumerate(owners)]
    heapify(heap)
    while heap:
        _, place = heappop(heap)
        if owners[place].step(pot):
            heappush(heap, (owners[place].held.dominant(pot.there), place))


def _seniority(state: JobState) -> tuple[int, float, int]:
    return (-state.job.priority, state.submitted, state.number)


def _merits(bids: Iterable[_Bid], pot: _Pot) -> Merits:
    """Return jobs in the order in which they are admitted, with what they were given."""
    shares = ((bid.state.number, bid.held.dominant(pot.there)) for bid in bids)
    return Merits(Measure.SHARE, tuple(shares))


def _allocation(pot: _Pot, bid: _Bid) -> Allocation:
    several = len(pot.room.types(bid.state.job)) > 1
    return exactly(bid.state.number, bid.workers, device_type=bid.device_type if several else None)


def _total(cluster: Cluster, entitlements: Entitlements) -> _Holding:
    """Return the total; a draining node counts with what it runs."""
    total = _Holding(entitlements.capacity.items())
    for node in cluster.nodes:
        kind = cluster.configuration_of(node)
        if node.state is NodeState.UP:
            total.add(_Holding((), kind.millicores, kind.memory))
        elif node.state is NodeState.DRAINING:
            total.add(_Holding((), kind.millicores - node.millicores, kind.memory - node.memory))
    return total


def _held(cluster: Cluster, state: JobState) -> _Holding:
    placement = state.target or state.placement
    held = _Holding()
    for slot in placement.slots if placement else ():
        kind = cluster.configuration_of(cluster.node(slot.node))
        devices = [(kind.device_type, slot.need.devices)] if slot.need.devices else ()
        held.add(_Holding(devices, slot.need.millicores, slot.need.memory))
    return held


POLICIES = (Drf(),)
