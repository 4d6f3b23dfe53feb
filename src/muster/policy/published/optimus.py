"""Optimus: one worker and one server per job, then task by task to the largest gain per resource.

Source: Peng et al., "Optimus", EuroSys'18. With Q the work left, f(w, p) the speed (work
per s) with w workers and p servers, and t(w, p) = Q / f(w, p) the time left in s,

    gain of one more worker = (t(w, p) - t(w + 1, p)) / amount
    gain of one more server = (t(w, p) - t(w, p + 1)) / amount

in s, where the amount is the part of the cluster's total that the task takes of its dominant resource
(devices of the type, cores or memory: the one of which that part is largest). The task with the
largest gain is given until no gain is above 0 or nothing is left. A young job's gain is multiplied by
0.95, because early fits are unreliable; young means that its time left is uncertain by more than
`young` (standard deviation of its logarithm; 0.3 is a third up or down).

A job's first worker and server are its gang of each. Jobs are in order of priority and age, which also
breaks ties. Cores and memory are counted for the cluster as a whole; placement checks single nodes.
With one device per worker and no servers this is what the Pollux artifact calls "Optimus + oracle": one
device each in order of arrival, then one at a time to the largest
(step time now - step time with one more) x steps left.
"""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from math import inf
from operator import attrgetter

from muster.model.cluster import Cluster, NodeState
from muster.model.job import Need, Role, RoleSpec
from muster.model.pool import Entitlements
from muster.model.view import View
from muster.policy.base import Allocation, Shares
from muster.policy.merits import by_time_left
from muster.policy.room import Room
from muster.policy.unknown import Crowd, Prospect, prospects

_NEXT_TO_NOTHING = 1e-9
"""The amount of a task that needs nothing: its gain must stay finite."""


@dataclass(frozen=True, slots=True)
class Optimus:
    """Largest marginal gain per dominant resource."""

    name: str = "optimus"
    informed: bool = True
    damping: float = 0.95
    young: float = 0.3

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate workers and servers, one task at a time."""
        room = Room(view, entitlements)
        stock = _Stock(view, room, entitlements)
        hands = [self._begin(each, stock) for each in prospects(view, room.movable, now)]
        _grow(hands, stock)
        # Small jobs are placed first ("jobs by ascending size").
        dealt = sorted((_gets(hand) for hand in hands), key=attrgetter("most"))
        merits = partial(by_time_left, view, room, view.jobs.values(), now)
        return Shares(tuple(dealt), memory, steers=True, merits=merits)

    def _begin(self, prospect: Prospect, stock: "_Stock") -> "_Hand":
        """Deal the job's gang, if there is room."""
        device_type = prospect.choose_type(stock.room, stock.crowd) if prospect.each else ""
        if device_type is None:
            return _Hand(prospect, "", 0.0, ())
        parts = tuple(
            _Part(spec.need, spec.gang, spec.most, stock.amount(spec.need, device_type))
            for spec in sorted(prospect.job.roles, key=_workers_first)
        )
        stock.room.take(prospect.job, device_type, prospect.gang)
        for part in parts:
            stock.take(part.need, part.count)
        weight = self.damping if prospect.spread > self.young else 1.0
        hand = _Hand(prospect, device_type, weight, parts)
        hand.time = hand.time_with(None)
        return hand


def _workers_first(spec: RoleSpec) -> bool:
    return spec.role is not Role.WORKER


class _Stock:
    """What is left: devices by type and pool, cores and memory of the whole cluster."""

    def __init__(self, view: View, room: Room, entitlements: Entitlements) -> None:
        self.room = room
        self.crowd = Crowd(entitlements.capacity)
        self._totals = _totals(view.cluster)
        self._millicores, self._memory = self._totals
        movable = {state.number for state in room.movable}
        for state in view.jobs.values():
            if state.number not in movable:
                for slot in state.held():
                    self.take(slot.need)

    def fits(self, need: Need) -> bool:
        """Whether cores and memory are left for one more such task."""
        return need.millicores <= self._millicores and need.memory <= self._memory

    def take(self, need: Need, tasks: int = 1) -> None:
        """Take the cores and memory of tasks."""
        self._millicores -= need.millicores * tasks
        self._memory -= need.memory * tasks

    def amount(self, need: Need, device_type: str) -> float:
        """Return the part of the cluster's total that a task takes of its dominant resource."""
        millicores, memory = self._totals
        return max(
            need.devices / max(1, self.crowd.capacity.get(device_type, 0)),
            need.millicores / max(1, millicores),
            need.memory / max(1, memory),
            _NEXT_TO_NOTHING,
        )


def _totals(cluster: Cluster) -> tuple[int, int]:
    """Return thousandths of a core and bytes of memory of all nodes that are not lost."""
    there = Counter(node.configuration for node in cluster.nodes if node.state is not NodeState.LOST)
    kinds = cluster.configurations
    millicores = sum(kinds[name].millicores * count for name, count in there.items())
    return millicores, sum(kinds[name].memory * count for name, count in there.items())


@dataclass(slots=True)
class _Part:
    """Tasks of one role dealt to a job."""

    need: Need
    count: int
    most: int
    amount: float


@dataclass(slots=True)
class _Hand:
    """A job, and the workers and servers dealt to it; () is nothing."""

    prospect: Prospect
    device_type: str
    weight: float
    parts: tuple[_Part, ...]
    time: float = inf
    """s left with what it was dealt."""

    @property
    def tasks(self) -> int:
        """Tasks dealt: grows with each, so it tells stale offers."""
        return sum(part.count for part in self.parts)

    def time_with(self, more: int | None) -> float:
        """Return the s left with one more task of that part."""
        counts = [part.count + (at == more) for at, part in enumerate(self.parts)]
        rate = self.prospect.rate_with(self.device_type, *counts)
        return self.prospect.left / rate if rate > 0 else inf


_Offer = tuple[float, int, int, int, float]
"""-gain, the hand's position, which part, the hand's tasks when it was made, s left after it."""


def _grow(hands: list[_Hand], stock: _Stock) -> None:
    """Give one task at a time to the largest gain. An offer depends on its own job alone, so after
    each task only that job's offers are renewed; stale ones are skipped."""
    offers: list[_Offer] = []
    for at in range(len(hands)):
        _offer(offers, hands, at)
    while offers:
        _, at, which, tasks, time = heappop(offers)
        hand = hands[at]
        if hand.tasks != tasks or not _deal(hand, which, stock):
            continue
        hand.time = time
        _offer(offers, hands, at)


def _offer(offers: list[_Offer], hands: list[_Hand], at: int) -> None:
    """Offer one more task of each role where it gains anything."""
    hand = hands[at]
    for which, part in enumerate(hand.parts):
        if part.count < part.most:
            time = hand.time_with(which)
            if time < hand.time:
                gain = hand.weight * (hand.time - time) / part.amount
                heappush(offers, (-gain, at, which, hand.tasks, time))


def _deal(hand: _Hand, which: int, stock: _Stock) -> bool:
    """Give the task if there is room: what does not fit now never will."""
    part = hand.parts[which]
    job = hand.prospect.job
    worker = which == 0
    if not stock.fits(part.need) or (worker and not stock.room.most(job, hand.device_type)):
        return False
    if worker:
        stock.room.take(job, hand.device_type, 1)
    stock.take(part.need)
    part.count += 1
    return True


def _gets(hand: _Hand) -> Allocation:
    counts = [part.count for part in hand.parts] or [0]
    return hand.prospect.gets(hand.device_type, *counts)


POLICIES = (Optimus(),)
