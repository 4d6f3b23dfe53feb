"""A job as Muster's own policy sees it: what is left, its weight, what every share is worth to it."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np

from muster.model.job import Job, Role, RoleSpec
from muster.model.outlook import Outlook, Speed
from muster.model.view import JobState, View
from muster.policy.base import Allocation, exactly
from muster.policy.deal import Offer
from muster.policy.prices import Array, gains, sizes, upto
from muster.policy.room import holds, type_held
from muster.policy.uncertainty import counts_as
from muster.policy.unknown import Prospect, outlook_of

NOTHING = 1e-100
"""Less than this, of work or of work per s, is none: its inverse must still be a number."""
ABOUT = 0.05
"""Speeds this close are taken for equal: as well as steps are measured."""
STEEPEST = 20
"""Steps of priority beyond which weights do not go: 2^20 is as good as for ever."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A job's speeds on one device type, for each number of workers worth a thought."""

    workers: tuple[int, ...]
    devices: tuple[int, ...]
    rates: Array
    slowness: Array
    """s per unit of work."""
    peaks: tuple[float, ...]
    """The best speed with so many workers or fewer."""
    ladder: Array
    """Work per s that each further device adds, on the concave hull."""
    servers: tuple[int, ...] = ()
    """Parameter servers that go with each number of workers; empty: it has none."""


Curves = Mapping[str, Curve]
"""By device type."""


Roles = tuple[RoleSpec, ...]
"""What a job asks for; its user may change that."""

Measured = tuple[str, int, float, float]
"""Device type, workers, work per s, and when that was measured, s."""


@dataclass(frozen=True, slots=True)
class BidMemory:
    """What the policy keeps from one call to the next."""

    capacity: Mapping[str, int] = field(default_factory=dict, compare=False)
    curves: Mapping[int, tuple[Speed, Roles, Curves]] = field(default_factory=dict, compare=False)
    """Of jobs whose speed and request are still the same: they save time and change nothing."""
    measured: Mapping[int, tuple[Measured, ...]] = field(default_factory=dict)
    """Of jobs that were spread over more nodes than they needed: how fast they were there."""

    def recall(self, job: Job, speed: Speed) -> Curves | None:
        """The job's curves, if they are those of this very speed and request."""
        seen = self.curves.get(job.number)
        return seen[2] if seen is not None and seen[0] is speed and seen[1] == job.roles else None


def curves_of(prospect: Prospect, types: Iterable[str], capacity: Mapping[str, int]) -> Curves:
    """The job's speeds on each of these types where it can run at all."""
    made = ((each, _curve(prospect, each, capacity[each])) for each in types)
    return {each: curve for each, curve in made if curve is not None}


def _curve(prospect: Prospect, device_type: str, capacity: int) -> Curve | None:
    workers = sizes(prospect.gang, min(prospect.most, capacity // prospect.each))
    servers = tuple(_servers(prospect, device_type, count) for count in workers)
    rates = [
        prospect.rate_with(device_type, count, each)
        for count, each in zip(workers, servers, strict=True)
    ]
    if max(rates, default=0.0) <= NOTHING:
        return None
    devices = tuple(count * prospect.each for count in workers)
    speeds = np.array(rates)
    slowness = np.divide(1.0, speeds, out=np.full(len(rates), np.inf), where=speeds > NOTHING)
    peaks = tuple(accumulate(rates, max))
    steps = gains(devices, rates)
    return Curve(workers, devices, speeds, slowness, peaks, steps, servers if prospect.served else ())


def _servers(prospect: Prospect, device_type: str, workers: int) -> int:
    """The fewest servers with which so many workers are about as fast as with any number."""
    spec = next((spec for spec in prospect.job.roles if spec.role is Role.SERVER), None)
    if spec is None:
        return 0
    counts = range(spec.gang, spec.most + 1)
    rates = [prospect.rate_with(device_type, workers, count) for count in counts]
    enough = max(rates) * (1 - ABOUT)
    return next(count for count, rate in zip(counts, rates, strict=True) if rate >= enough)


class Bid:
    """A job in a deal."""

    __slots__ = (
        "_here",
        "_measured",
        "curves",
        "each",
        "held",
        "job",
        "left",
        "number",
        "outlook",
        "price",
        "state",
        "type",
        "type_held",
        "weight",
        "workers",
    )

    def __init__(self, view: View, state: JobState, outlook: Outlook, curves: Curves) -> None:
        self.state = state
        self.job: Job = state.job
        self.number = state.number
        self.outlook = outlook
        self.curves = curves
        self.each = state.job.workers.need.devices
        self.left = counts_as(max(outlook.left, NOTHING), outlook.spread)
        """Work left, as urgent as it is."""
        self.weight = 2.0 ** max(-STEEPEST, min(STEEPEST, state.job.priority))
        self.price = 0.0
        """s by which the sum of completion times shrinks with a unit of its work done."""
        self.held = holds(state)
        self.type_held = type_held(view, state) if self.held else None
        self._here = outlook.here if _scattered(view, state, self.type_held) else None
        self._measured: tuple[Measured, ...] = ()
        self.type = ""
        """The type it is dealt, and how many workers there."""
        self.workers = 0

    def time(self, devices: Mapping[str, int]) -> float:
        """s left at its best on what there is at most; the price order goes by it."""
        within = ((curve, upto(curve.devices, devices.get(t, 0))) for t, curve in self.curves.items())
        best = max((curve.peaks[count - 1] for curve, count in within if count), default=0.0)
        return self.left / best / self.weight if best > NOTHING else 0.0

    def remember(self, known: Iterable[Measured], since: float, now: float) -> tuple[Measured, ...]:
        """Take in what was measured of it since some moment, and what is measured now."""
        found = {(each[0], each[1]): each for each in known if each[3] >= since}
        if self._here is not None and self.type_held is not None and self._settled(now):
            found[self.type_held, self.held] = (self.type_held, self.held, self._here, now)
        self._measured = tuple(found.values())
        return self._measured

    def offer(self, device_type: str, horizon: float, now: float) -> Offer:
        """What each number of devices of the type is worth to it."""
        curve = self.curves[device_type]
        held = self.held if device_type == self.type_held and self.held in curve.workers else None
        if held is not None and not self._settled(now):
            # A change is not called off before it can have been worth anything.
            at = curve.workers.index(held)
            return Offer((0, curve.devices[at]), (0.0, self.price * float(curve.rates[at])))
        rates, slowness = self._had(curve, device_type)
        lasts = np.minimum(self.job.pause + self.left * slowness, horizon)
        worth = self.price * rates * (1.0 - np.minimum(1.0, self.job.pause / lasts))
        values: list[float] = worth.tolist()
        if held is not None:
            at = curve.workers.index(held)
            here = float(curve.rates[at]) if self._here is None else self._here
            values[at] = self.price * here
        return Offer((0, *curve.devices), (0.0, *values))

    def _had(self, curve: Curve, device_type: str) -> tuple[Array, Array]:
        """Speeds and their inverses, where they were measured of late no better than that: what was
        spread over too many nodes a moment ago would be so again."""
        caps = {k: rate for t, k, rate, _ in self._measured if t == device_type and k in curve.workers}
        if not caps:
            return curve.rates, curve.slowness
        rates = curve.rates.copy()
        for workers, rate in caps.items():
            at = curve.workers.index(workers)
            rates[at] = max(NOTHING, min(rates[at], rate))
        return rates, np.divide(1.0, rates, out=np.full(len(rates), np.inf), where=rates > NOTHING)

    def _settled(self, now: float) -> bool:
        """Whether the pause of its last change is over."""
        since = self.state.since
        return since is None or now > since + self.job.pause

    def gets(self) -> Allocation:
        """What it was dealt, as the policy says it. Another batch alone costs nothing."""
        if not self.workers:
            return exactly(self.number, 0)
        curve = self.curves[self.type]
        servers = curve.servers[curve.workers.index(self.workers)] if curve.servers else None
        batch = self.outlook.speed.batch(self.type, self.workers)
        return exactly(self.number, self.workers, servers=servers, device_type=self.type, batch=batch)


def _scattered(view: View, state: JobState, device_type: str | None) -> bool:
    """Whether the job is on more nodes than its devices need."""
    if state.placement is None or device_type is None:
        return False
    kinds = view.cluster.configurations.values()
    on_node = max((kind.devices for kind in kinds if kind.device_type == device_type), default=1)
    nodes = {slot.node for slot in state.placement.slots if slot.bits}
    return len(nodes) * on_node >= state.placement.devices + on_node


def bid_on(view: View, state: JobState, types: Iterable[str], now: float, memory: BidMemory) -> Bid:
    """The job's bid, with the curves of before where its speed is the same."""
    outlook = outlook_of(view, state, now)
    curves = memory.recall(state.job, outlook.speed)
    if curves is None:
        curves = curves_of(Prospect(view, state, now), types, memory.capacity)
    return Bid(view, state, outlook, curves)
