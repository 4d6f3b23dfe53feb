"""A job as Muster's own policy sees it: work left, weight, and the worth of every share."""

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
from muster.policy.room import holds, most_on_node, type_held
from muster.policy.uncertainty import counts_as, firmness
from muster.policy.unknown import Prospect, outlook_of

NOTHING = 1e-100
"""Less work, or work per s, counts as none: its inverse must stay finite."""
ABOUT = 0.05
"""Speeds this close count as equal: the precision of measured steps."""
STANDS = 15.0
"""s for which a change is not undone by beliefs alone: the runtime's first two measurements take that
long. A live resize costs milliseconds, so its price holds no restless belief back."""
STEEPEST = 20
"""Steps of priority beyond which weights do not grow: 2^20 is effectively infinite."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A job's speeds on one device type, by number of workers."""

    workers: tuple[int, ...]
    devices: tuple[int, ...]
    rates: Array
    slowness: Array
    """s per unit of work."""
    peaks: tuple[float, ...]
    """The best speed with at most these workers."""
    ladder: Array
    """Work per s that each further device adds, on the concave hull."""
    servers: tuple[int, ...] = ()
    """Parameter servers for each number of workers; empty: none."""


Curves = Mapping[str, Curve]
"""By device type."""


Roles = tuple[RoleSpec, ...]
"""A job's request, which its user may change."""

Measured = tuple[str, int, float, float]
"""Device type, workers, work per s, and when measured, in s."""


@dataclass(frozen=True, slots=True)
class Trial:
    """More workers lent to a job than it is believed to need (see `trials`)."""

    workers: int
    since: float
    """s when it began or, if over, ended."""
    failed: int = 0
    """Trials in a row that did not help."""
    open: bool = False
    device_type: str = ""
    """Where; empty: the type that it has."""


@dataclass(frozen=True, slots=True)
class BidMemory:
    """What the policy keeps between calls."""

    capacity: Mapping[str, int] = field(default_factory=dict, compare=False)
    curves: Mapping[int, tuple[Speed, float, Roles, Curves]] = field(
        default_factory=dict, compare=False, metadata={"cache": True}
    )
    """A cache for jobs of unchanged speed and request."""
    measured: Mapping[int, tuple[Measured, ...]] = field(default_factory=dict)
    """Speeds of jobs while spread over more nodes than needed."""
    trials: Mapping[int, Trial] = field(default_factory=dict)
    turns: Mapping[int, bool] = field(default_factory=dict)
    """Whether the last change of a job gave it more, or took some though nobody waited for them."""

    def recall(self, job: Job, outlook: Outlook) -> Curves | None:
        """Return the job's curves, if its speed and request are unchanged."""
        seen = self.curves.get(job.number)
        if seen is None or seen[0] is not outlook.speed:
            return None
        return seen[3] if seen[1:3] == (outlook.slowed, job.roles) else None


def curves_of(prospect: Prospect, types: Iterable[str], capacity: Mapping[str, int]) -> Curves:
    """Return the job's speeds on each type where it can run."""
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
    """Return the fewest servers with which these workers are about as fast as with any number."""
    spec = next((spec for spec in prospect.job.roles if spec.role is Role.SERVER), None)
    if spec is None:
        return 0
    counts = range(spec.gang, spec.most + 1)
    rates = [prospect.rate_with(device_type, workers, count) for count in counts]
    enough = max(rates) * (1 - ABOUT)
    return next(count for count, rate in zip(counts, rates, strict=True) if rate >= enough)


class Bid:
    """A job in a deal."""

    def __init__(self, view: View, state: JobState, outlook: Outlook, curves: Curves) -> None:
        self.state = state
        self.job: Job = state.job
        self.number = state.number
        self.outlook = outlook
        self.curves = curves
        self.each = state.job.workers.need.devices
        self.left = counts_as(max(outlook.left, NOTHING), outlook.spread)
        """Work left, adjusted for its uncertainty."""
        self.weight = 2.0 ** max(-STEEPEST, min(STEEPEST, state.job.priority))
        self.price = 0.0
        """s by which a unit of its work shortens the sum of completion times."""
        self.held = holds(state)
        self.type_held = type_held(view, state) if self.held else None
        self._here = outlook.here if _scattered(view, state, self.type_held) else None
        self._measured: tuple[Measured, ...] = ()
        self.pause = view.resize_pause(state) if self.held else view.start_pause(state)
        """s that a change costs it: a live resize while it runs, else a start."""
        self.starts = 0.0 if self.held else self.pause
        """s until it works, once it is given devices."""
        self.paused = view.last_pause(state)
        """s that its last change cost it."""
        self.turn: bool | None = None
        """Whether its last change gave it more, or took some though nobody waited; None: neither."""
        self.type = ""
        """The type it is dealt, with `workers`."""
        self.workers = 0

    @property
    def measured(self) -> bool:
        """Whether its speed is measured on what it holds."""
        return self.outlook.here is not None

    def time(self, devices: Mapping[str, int]) -> float:
        """Return the s left at its best on these devices, which orders the pricing: a job that waits
        also has its start before it."""
        within = ((curve, upto(curve.devices, devices.get(t, 0))) for t, curve in self.curves.items())
        best = max((curve.peaks[count - 1] for curve, count in within if count), default=0.0)
        return (self.starts + self.left / best) / self.weight if best > NOTHING else 0.0

    def remember(self, known: Iterable[Measured], since: float, now: float) -> tuple[Measured, ...]:
        """Add the current measurement to those since some moment."""
        found = {(each[0], each[1]): each for each in known if each[3] >= since}
        if self._here is not None and self.type_held is not None and self.settled(now):
            found[self.type_held, self.held] = (self.type_held, self.held, self._here, now)
        self._measured = tuple(found.values())
        return self._measured

    def offer(self, device_type: str, horizon: float, now: float, *, wanted: bool = True) -> Offer:
        """Return what each number of devices of the type is worth to it.

        `wanted`: whether a job waits that could have those that this one leaves.
        """
        curve = self.curves[device_type]
        held = self.held if device_type == self.type_held and self.held in curve.workers else None
        unpaid = self._unpaid(now) if held is not None else 0.0
        rates, slowness = self._had(curve, device_type)
        lasts = np.minimum(self.pause + self.left * slowness, horizon)
        worth = self.price * rates * (1.0 - np.minimum(1.0, (self.pause + unpaid) / lasts))
        values: list[float] = worth.tolist()
        at = 0
        if held is not None:
            at = curve.workers.index(held)
            values[at] = self.price * (float(curve.rates[at]) if self._here is None else self._here)
        firm = self._firm()
        values = [value + firm for value in values]
        if held is None:
            return Offer((0, *curve.devices), (0.0, *values))
        first, last = self._within(at, len(values), now, wanted=wanted)
        return Offer((0, *curve.devices[first:last]), (0.0, *values[first:last]))

    def _firm(self) -> float:
        """Return what running on is worth beyond its work, equal for every count and type: it decides
        whether the job runs on, not with what."""
        curve = self.curves.get(self.type_held or "")
        if curve is None:
            return 0.0
        rigid = curve.workers[0] / curve.workers[-1]
        return (firmness(self.outlook.spread, rigid) - 1.0) * self.price * float(curve.rates[0])

    def _within(self, at: int, end: int, now: float, *, wanted: bool) -> tuple[int, int]:
        """Return the range of what it may be given: a change is not undone before it can have paid
        off, nor by beliefs alone before it was measured."""
        paid, stands = self.settled(now), not self.settled(now - STANDS)
        grows = paid and not (stands and self.turn is False)
        shrinks = paid and not (stands and self.turn)
        makes_way = wanted and (paid or not self.job.restarts)
        return (0 if shrinks or makes_way else at), (end if grows else at + 1)

    def turned(self, *, wanted: bool) -> bool | None:
        """Return the same after what it was dealt now."""
        if not self.workers or self.workers == self.held:
            return self.turn if self.workers else None
        if self.workers > self.held:
            return True
        return None if wanted else False

    def _had(self, curve: Curve, device_type: str) -> tuple[Array, Array]:
        """Return speeds and their inverses, capped by recent measurements: what was just spread over
        too many nodes would be so again."""
        caps = {k: rate for t, k, rate, _ in self._measured if t == device_type and k in curve.workers}
        if not caps:
            return curve.rates, curve.slowness
        rates = curve.rates.copy()
        for workers, rate in caps.items():
            at = curve.workers.index(workers)
            rates[at] = max(NOTHING, min(rates[at], rate))
        return rates, np.divide(1.0, rates, out=np.full(len(rates), np.inf), where=rates > NOTHING)

    def settled(self, now: float) -> bool:
        """Whether the pause of its last change is over."""
        since = self.state.since
        return since is None or now > since + self.paused

    def _unpaid(self, now: float) -> float:
        """Return the s of that pause that are still to come."""
        since = self.state.since
        return 0.0 if since is None else max(0.0, since + self.paused - now)

    def gets(self) -> Allocation:
        """Return its allocation. Changing only the batch costs nothing."""
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
    on_node = most_on_node(view, device_type)
    nodes = {slot.node for slot in state.placement.slots if slot.bits}
    return len(nodes) * on_node >= state.placement.devices + on_node


def bid_on(view: View, state: JobState, types: Iterable[str], now: float, memory: BidMemory) -> Bid:
    """Return the job's bid, with cached curves if its speed is the same."""
    outlook = outlook_of(view, state, now)
    curves = memory.recall(state.job, outlook)
    if curves is None:
        curves = curves_of(Prospect(view, state, now), types, memory.capacity)
    return Bid(view, state, outlook, curves)
