"""A job as Muster's own policy sees it: work left, weight, and the worth of every share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import lru_cache
from itertools import accumulate
from math import inf
from operator import attrgetter, mul

import numpy as np

from muster.model.job import Job, Role
from muster.model.outlook import Outlook
from muster.model.view import JobState, View
from muster.policy.base import Allocation
from muster.policy.market.calm import Calm
from muster.policy.market.deal import Offer
from muster.policy.market.price_list import PriceList
from muster.policy.market.prices import Array, gains, sizes, upto
from muster.policy.market.uncertainty import counts_as, firmness
from muster.policy.room import holds, is_scattered, type_held, workers_by_type
from muster.policy.unknown import Prospect, outlook_of

NOTHING = 1e-100
"""Less work, or work per s, counts as none: its inverse must stay finite."""
ABOUT = 0.05
"""Speeds this close count as equal: the precision of measured steps."""
STANDS = 15.0
"""s for which a change is not undone by beliefs alone: the runtime's first two measurements take that
long. A live resize costs milliseconds, so its price holds no restless belief back."""
UNSURE = 0.15
"""Part by which another type must be worth more to a job that runs, where lengths and speeds are only
believed: else beliefs that change with every report move it back and forth."""
FEW = 4
"""Columns kept of a job, by what was measured."""
STEEPEST = 20
"""Steps of priority beyond which weights do not grow: 2^20 is effectively infinite."""


@dataclass(slots=True, eq=False)
class Curve:
    """A job's speeds on one device type, by number of workers. Never changed; not frozen, since making
    it then takes five times as long, and each new belief makes one."""

    workers: tuple[int, ...]
    devices: tuple[int, ...]
    counts: tuple[int, ...]
    """The same, with 0 before them."""
    speeds: Sequence[float]
    times: Sequence[float]
    """s per unit of work."""
    peaks: tuple[float, ...]
    """The best speed with at most these workers."""
    servers: tuple[int, ...] = ()
    """Parameter servers for each number of workers; empty: none."""
    cheapest: float = 0.0
    """Fewest device-seconds of a unit of work."""
    useful: int = 0
    """Devices beyond which it is not faster."""
    _ladder: Array | None = None

    @property
    def ladder(self) -> Array:
        """Work per s that each further device adds, on the concave hull; worked out when a price is
        asked for, which needs not be where there is enough for everybody."""
        if self._ladder is None:
            self._ladder = gains(self.devices, self.speeds)
        return self._ladder


Curves = Mapping[str, Curve]
"""By device type."""

_PROGRESS = ("left", "spread", "here", "tells")
"""What of an outlook changes with every step."""
_BELIEVED = attrgetter(*(each.name for each in fields(Outlook) if each.name not in _PROGRESS))


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
class Dues:
    """How crowded jobs' lives were, up to `at` (see `urgency`)."""

    at: float
    crowded: Mapping[int, float]
    """Crowd-seconds by job."""


@dataclass(frozen=True, slots=True)
class BidMemory:
    """What the policy keeps between calls."""

    capacity: Mapping[str, int] = field(default_factory=dict, compare=False)
    bids: "Mapping[int, Bid]" = field(default_factory=dict, compare=False, metadata={"cache": True})
    """Bids before any deal, to be used again while what they were made from is the same."""
    measured: Mapping[int, tuple[Measured, ...]] = field(default_factory=dict)
    """Speeds of jobs while spread over more nodes than needed."""
    trials: Mapping[int, Trial] = field(default_factory=dict)
    turns: Mapping[int, bool] = field(default_factory=dict)
    """Whether the last change of a job gave it more, or took some though nobody waited for them."""
    prices: Mapping[str, PriceList] = field(
        default_factory=dict, compare=False, metadata={"cache": True}
    )
    """The last prices of each pool's jobs."""
    margins: Mapping[str, Mapping[str, float]] = field(
        default_factory=dict, compare=False, metadata={"cache": True}
    )
    """What a device was worth in the last deal, by pool and type: where the next one begins."""
    dues: Dues | None = None
    calm: Calm = field(default_factory=Calm)

    def recall(self, job: Job, outlook: Outlook) -> Curves | None:
        """Return the job's curves, if its speed and request are unchanged."""
        seen = self.bids.get(job.number)
        if seen is None or seen.outlook.speed is not outlook.speed:
            return None
        alike = seen.outlook.slowed == outlook.slowed and seen.job.roles == job.roles
        return seen.curves if alike else None


def curves_of(
    prospect: Prospect, types: Iterable[str], capacity: Mapping[str, int], thrift: float = 0.0
) -> Curves:
    """Return the job's speeds on each type where it can run; `thrift`: least work per device, as a part
    of the most, its gang excepted."""
    made = ((each, _curve(prospect, each, capacity[each], thrift)) for each in types)
    return {each: curve for each, curve in made if curve is not None}


def _curve(prospect: Prospect, device_type: str, capacity: int, thrift: float = 0.0) -> Curve | None:
    workers = sizes(prospect.gang, min(prospect.most, capacity // prospect.each))
    if thrift:
        workers = _thrifty(prospect, device_type, workers, thrift)
    devices, offered = _in_devices(workers, prospect.each)
    servers = _all_servers(prospect, device_type, workers)
    rates = prospect.rates(device_type, workers, servers)
    if max(rates, default=0.0) <= NOTHING:
        return None
    # Plain numbers: most curves have fewer than twenty.
    slowness = _inverses(rates)
    peaks = tuple(accumulate(rates, max))
    cheapest = min(map(mul, slowness, devices))
    useful = devices[rates.index(peaks[-1])]
    return Curve(workers, devices, offered, rates, slowness, peaks, servers, cheapest, useful)


def _inverses(rates: Iterable[float]) -> list[float]:
    return [1.0 / rate if rate > NOTHING else inf for rate in rates]


@lru_cache(maxsize=1024)
def _in_devices(workers: tuple[int, ...], each: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the devices of these workers, and the same with 0 before them."""
    devices = tuple([count * each for count in workers])
    return devices, (0, *devices)


def _all_servers(prospect: Prospect, device_type: str, workers: Sequence[int]) -> tuple[int, ...]:
    """Return the servers that go with each number of workers; empty: it has none."""
    if not prospect.served:
        return ()
    return tuple(_servers(prospect, device_type, count) for count in workers)


def _thrifty(
    prospect: Prospect, device_type: str, workers: tuple[int, ...], thrift: float
) -> tuple[int, ...]:
    """Return the counts with which a device does this part of the most that it could."""
    each = [prospect.rate(device_type, count) / count for count in workers]
    enough = thrift * max(each, default=0.0) * (1 - ABOUT)
    return tuple(n for n, rate in zip(workers, each, strict=True) if rate >= enough or n == workers[0])


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
        spec = state.job.workers
        self.each = spec.need.devices
        self.most = spec.most
        """The most workers that it asks for."""
        self._tries = state.job.elastic and not state.job.restarts
        """Whether it may be worth running sooner for what its end tells of others: one that is resized
        live takes little from them for it."""
        self.left = self._urgent(outlook)
        """Work left, adjusted for its uncertainty."""
        self.weight = 2.0 ** max(-STEEPEST, min(STEEPEST, state.job.priority))
        """How many times a second of its waiting counts."""
        self.price = 0.0
        """s by which a unit of its work shortens the sum of completion times."""
        self.held = holds(state)
        self.type_held = type_held(view, state) if self.held else None
        self.had_beside: dict[str, int] = {}
        """Workers that it has on devices of other types."""
        if self.held and state.job.mixes and len(view.cluster.configurations) > 1:
            self._tell_types_apart(workers_by_type(view, state))
        self._scattered = not self.had_beside and _scattered(view, state, self.type_held)
        self.here_only = outlook.here if self._scattered else None
        """Speed measured on more nodes than it needs; None: it is not on more."""
        self._measured: tuple[Measured, ...] = ()
        self.changes = max(0, state.generation - 1)
        """The changes that it has had, its first start not among them."""
        self._count_pauses(view, state)
        self.turn: bool | None = None
        """Whether its last change gave it more, or took some though nobody waited; None: neither."""
        self.type = ""
        """The type it is dealt, with `workers`."""
        self.workers = 0
        self.beside: dict[str, int] = {}
        """Workers that it is lent on devices of other types (see `spans`)."""
        self._nodes = view.cluster.index
        """Which node has what devices."""
        self._note_constants()
        self._believed = _BELIEVED(outlook)
        self._made_from: Bid | None = None
        """The bid that this is a copy of; not itself: only the cyclic collector would free it."""

    def _note_constants(self) -> None:
        """Work out what every cycle asks for and never changes."""
        curves = [*self.curves.values()]
        self.asked = self.job.workers.gang * self.each
        """Devices of its gang."""
        self.gang_rate = curves[0].peaks[0] if curves else 0.0
        """Speed of its gang, on its best type."""
        self.cheapest = curves[0].cheapest if curves else 0.0
        """Fewest device-seconds of a unit of its work."""
        for curve in curves[1:]:
            self.gang_rate = max(self.gang_rate, curve.peaks[0])
            self.cheapest = min(self.cheapest, curve.cheapest)
        own = self.curves.get(self.type_held or "")
        has = own is not None and self.held in own.workers
        self._at = own.workers.index(self.held) if own is not None and has else None
        """Where what it has on its type is among the numbers of workers that it could be given; None:
        it is not."""
        self._columns: dict[tuple[object, ...], Array] = {}
        """Of `columns`, by type and what was measured there, once asked for."""
        self.at_best = (
            own is not None and self._at is not None and own.speeds[self._at] == own.peaks[-1]
        )
        """Whether it has the workers with which it is fastest on its type."""
        self._least = (own.workers[0] / own.workers[-1], own.speeds[0]) if own else None
        """The part of its largest share on its type that it cannot give up, and its speed with it."""

    def _count_pauses(self, view: View, state: JobState) -> None:
        """Note what changes cost it."""
        self.pause = view.resize_pause(state) if self.held else view.start_pause(state)
        """s that a change costs it: a live resize while it runs, else a start."""
        self.start = view.start_pause(state)
        """s that a start costs it, and so a stop."""
        self.starts = 0.0 if self.held else self.pause
        """s until it works, once it is given devices."""
        self.paused = view.last_pause(state)
        """s that its last change cost it."""
        self.joining = max(0.0, self.start - self.pause) if self.held else 0.0
        """s until workers that it is given train with it, beyond the pause: they load as in a start,
        while those that it has train on."""

    def is_of(self, view: View, state: JobState, outlook: Outlook) -> bool:
        """Whether it would be made the same now, but for the job's progress."""
        if state is not self.state or view.cluster.index is not self._nodes:
            return False
        return outlook is self.outlook or _BELIEVED(outlook) == self._believed

    def holds_the_same(self, view: View, state: JobState) -> bool:
        """Whether only what is believed of it may be another than when it was made."""
        same = state is self.state and view.cluster.index is self._nodes
        # Which of several types is its own depends on beliefs.
        return same and not (state.job.mixes and len(view.cluster.configurations) > 1)

    def believing(self, view: View, outlook: Outlook, curves: Curves) -> "Bid":
        """Return the bid of the same job, holding the same, of which this is believed now."""
        bid = self.to_deal(outlook)
        bid._made_from, bid.curves, bid._believed = None, curves, _BELIEVED(outlook)
        bid._count_pauses(view, bid.state)
        bid._note_constants()
        return bid

    def to_deal(self, outlook: Outlook) -> "Bid":
        """Return a copy with this progress, to be dealt to; `origin` stays as it was made."""
        bid = object.__new__(Bid)
        bid.__dict__ = self.__dict__.copy()  # in half the time of a call that fills the other
        bid._made_from, bid.outlook, bid.beside = self, outlook, {}
        bid.left = bid._urgent(outlook)
        bid.here_only = outlook.here if self._scattered else None
        return bid

    @property
    def origin(self) -> "Bid":
        """The bid as it was made, for the next cycle."""
        return self if self._made_from is None else self._made_from

    def _urgent(self, outlook: Outlook) -> float:
        """Return the certain work left that is as urgent as what is believed."""
        tells = outlook.tells if self._tries else 1
        return counts_as(max(outlook.left, NOTHING), outlook.spread, tells)

    def _tell_types_apart(self, workers: Mapping[str, int]) -> None:
        """Of several types that it has, call that its own on which it is fastest."""
        if len(workers) > 1:
            rates = {each: self.outlook.speed.rate(each, count) for each, count in workers.items()}
            self.type_held = max(rates, key=lambda each: (rates[each], each))
            self.held = workers[self.type_held]
            self.had_beside = {each: n for each, n in workers.items() if each != self.type_held}

    @property
    def measured(self) -> bool:
        """Whether its speed is measured on what it holds."""
        return self.outlook.here is not None

    def time(self, devices: Mapping[str, int]) -> float:
        """Return the s left at its best on these devices, which orders the pricing: a job that waits
        also has its start before it."""
        best = 0.0
        for each, curve in self.curves.items():  # hot path: generators are slower
            count = upto(curve.devices, devices.get(each, 0))
            if count and curve.peaks[count - 1] > best:
                best = curve.peaks[count - 1]
        return (self.starts + self.left / best) / self.weight if best > NOTHING else 0.0

    def cheapest_on(self, device_type: str) -> float:
        """Return the fewest device-seconds of a unit of work on a type, or anywhere, if not there."""
        curve = self.curves.get(device_type)
        return self.cheapest if curve is None else curve.cheapest

    def rest(self, devices: Mapping[str, int]) -> float:
        """Return the s left at its best on these devices."""
        return self.time(devices) * self.weight

    def remember(self, known: Sequence[Measured], since: float, now: float) -> tuple[Measured, ...]:
        """Add the current measurement to those since some moment."""
        if not known and self.here_only is None:  # most jobs, in most cycles
            return ()
        found = {(each[0], each[1]): each for each in known if each[3] >= since}
        if self.here_only is not None and self.type_held is not None and self.settled(now):
            found[self.type_held, self.held] = (self.type_held, self.held, self.here_only, now)
        self._measured = tuple(found.values())
        return self._measured

    def offer(self, device_type: str, horizon: float, now: float, *, wanted: bool = True) -> Offer:
        """Return what each number of devices of the type is worth to it.

        `wanted`: whether a job waits that could have those that this one leaves.
        """
        terms = self.terms(device_type, horizon, now)
        pause, left, price, unpaid, stays, joining, here, firm = terms
        costs, values = pause + unpaid, list[float]()
        for rate, time in zip(*self.had(device_type), strict=True):  # hot path: no calls
            lasts = pause + left * time
            lasts = lasts if lasts < stays else stays
            values.append(price * rate * (1.0 - (costs / lasts if costs < lasts else 1.0)))
        if joining:
            times = self.had(device_type)[1]
            for i, more in enumerate(self._gained(device_type)):
                if more:
                    lasts = left * times[i] + joining * more
                    lasts = lasts if lasts < stays else stays
                    values[i] *= 1.0 - more * (joining / lasts if joining < lasts else 1.0)
        within = self.within(device_type, now, wanted=wanted)
        return self._offered(device_type, values, here, firm, within)

    def _offered(
        self, device_type: str, values: list[float], here: float, firm: float, within: tuple[int, int]
    ) -> Offer:
        """Return the offer, given what each count is worth to one that does not have it."""
        curve, held = self.curves[device_type], self.column(device_type)
        if held:
            values[held - 1] = here
        if firm:
            values = [value + firm for value in values]
        first, last = within
        if last - first == len(values):
            return Offer(curve.counts, (0.0, *values))
        return Offer((0, *curve.devices[first:last]), (0.0, *values[first:last]))

    def terms(self, device_type: str, horizon: float, now: float) -> tuple[float, ...]:
        """Return what its worths follow from: pause, work left, price, s of a pause to come, s for
        which a share of it lasts, s until further workers have joined, what it is worth as it is, and
        what running on is worth beyond that."""
        unpaid, price, joining, here, firm = 0.0, self.price, 0.0, 0.0, 0.0
        if device_type == self.type_held:
            if (at := self._at) is not None:  # hot path: of every job in every cycle, so calls count
                joining, since = self.joining, self.state.since
                if since is not None and since + self.paused > now:
                    unpaid = since + self.paused - now
                speed = self.here_only
                here = price * (self.curves[device_type].speeds[at] if speed is None else speed)
        elif self.held and self.outlook.spread > 0.0:
            price *= 1.0 - UNSURE
        if self._least is not None and self.outlook.spread > 0.0:
            firm = self._firm(*self._least)
        stays = self.stays(horizon, now)
        return self.pause, self.left, price, unpaid, stays, joining, here, firm

    def column(self, device_type: str) -> int:
        """Return which of the counts that it could be given on a type, from 0, it has; 0: none."""
        return 0 if self._at is None or device_type != self.type_held else self._at + 1

    def columns(self, device_type: str) -> Array:
        """Return devices, speeds, their inverses, and what further workers gain it, (4, numbers of
        workers)."""
        caps = self._caps(device_type) if self._measured else {}
        key = (device_type, *caps.items())
        known = self._columns.get(key)
        if known is None:
            if len(self._columns) > FEW:
                self._columns.clear()
            curve, rates = self.curves[device_type], self._capped(device_type, caps)
            known = np.array([curve.devices, *rates, self._gained(device_type)])
            self._columns[key] = known
        return known

    def _gained(self, device_type: str) -> list[float]:
        """Return the part by which each number of workers is faster than what it has there: that is not
        worth anything before they have joined. Until then the job goes on as it is, and so lasts longer
        than with them from now on."""
        curve = self.curves[device_type]
        at = self._at if device_type == self.type_held else None
        if at is None:
            return [0.0] * len(curve.times)
        speed = curve.speeds[at]
        more = [1.0 - speed * time for time in curve.times[at + 1 :]]
        return [0.0] * (at + 1) + [each if each > 0.0 else 0.0 for each in more]

    def stays(self, horizon: float, now: float) -> float:
        """Return the s for which a share of the job lasts: by the changes that it has had, with one in
        `horizon` as the prior, which is also the most. The restless pay their pauses more often."""
        lasting = (horizon + now - self.state.submitted) / (1 + self.changes)
        return lasting if lasting < horizon else horizon

    def _firm(self, rigid: float, rate: float) -> float:
        """Return what running on is worth beyond its work, equal for every count and type: it decides
        whether the job runs on, not with what. `rigid`: the part of its largest share that it cannot
        give up, with which it has this speed."""
        return (firmness(self.outlook.spread, rigid) - 1.0) * self.price * rate

    def lasts(self, device_type: str, workers: int, horizon: float) -> float:
        """Return the s for which it would have these workers, until it ends and at most `horizon`."""
        curve = self.curves[device_type]
        slowness = curve.times[curve.workers.index(workers)]
        return min(horizon, self.pause + self.left * slowness)

    def stop_cost(self) -> float:
        """Return what a stop costs it, the work of another start, in s of everybody's waiting."""
        curve = self.curves[self.type_held or ""]
        at = curve.workers.index(self.held) if self.held in curve.workers else 0
        return self.price * curve.speeds[at] * self.start

    @property
    def worked_at(self) -> float:
        """When it will have worked for as long as its start took."""
        return (self.state.started or 0.0) + 2.0 * self.start

    def within(self, device_type: str, now: float, *, wanted: bool) -> tuple[int, int]:
        """Return the range of what it may be given: a change is not undone before it can have paid
        off, nor by beliefs alone before it was measured."""
        since, end = self.state.since, len(self.curves[device_type].workers)
        at = self.column(device_type) - 1
        if at < 0 or since is None or now - STANDS > since + self.paused:
            return 0, end
        paid = now > since + self.paused
        grows = paid and self.turn is not False
        shrinks = paid and not self.turn
        makes_way = wanted and (paid or not self.job.restarts)
        return (0 if shrinks or makes_way else at), (end if grows else at + 1)

    def turned(self, *, wanted: bool) -> bool | None:
        """Return the same after what it was dealt now."""
        if not self.workers or self.workers == self.held:
            return self.turn if self.workers else None
        if self.workers > self.held:
            return True
        return None if wanted else False

    def had(self, device_type: str) -> tuple[Sequence[float], Sequence[float]]:
        """Return speeds and their inverses, capped by recent measurements: what was just spread over
        too many nodes would be so again."""
        return self._capped(device_type, self._caps(device_type) if self._measured else {})

    def _caps(self, device_type: str) -> dict[int, float]:
        """Return the speeds measured on a type, by number of workers."""
        workers = self.curves[device_type].workers
        return {k: rate for t, k, rate, _ in self._measured if t == device_type and k in workers}

    def _capped(
        self, device_type: str, caps: Mapping[int, float]
    ) -> tuple[Sequence[float], Sequence[float]]:
        curve = self.curves[device_type]
        if not caps:
            return curve.speeds, curve.times
        rates = list(curve.speeds)
        for workers, rate in caps.items():
            at = curve.workers.index(workers)
            rates[at] = max(NOTHING, min(rates[at], rate))
        return rates, _inverses(rates)

    def settled(self, now: float) -> bool:
        """Whether the pause of its last change is over."""
        since = self.state.since
        return since is None or now > since + self.paused

    def gets(self) -> Allocation:
        """Return its allocation. Changing only the batch costs nothing."""
        workers = self.workers
        if not workers:
            return Allocation(self.number, 0, 0)
        curve = self.curves[self.type]
        servers = curve.servers[curve.workers.index(workers)] if curve.servers else None
        batch = self.outlook.speed.batch(self.type, workers)
        beside = tuple(sorted(self.beside.items())) if self.beside else ()
        return Allocation(self.number, workers, workers, servers, self.type, batch, beside)


def _scattered(view: View, state: JobState, device_type: str | None) -> bool:
    """Whether the job is on more nodes than its devices need."""
    if state.placement is None or device_type is None:
        return False
    return is_scattered(view, state.placement, device_type)


Alike = dict[tuple[object, ...], Curves]
"""Curves by speed and request: jobs of one application and size share them."""


def bid_on(
    view: View,
    state: JobState,
    types: Iterable[str],
    now: float,
    memory: BidMemory,
    alike: Alike,
    thrift: float = 0.0,
) -> Bid:
    """Return the job's bid, made again only as far as something has changed."""
    outlook = outlook_of(view, state, now)
    known = memory.bids.get(state.number)
    if known is None or not known.is_of(view, state, outlook):
        curves = memory.recall(state.job, outlook)
        if curves is None:
            key = (id(outlook.speed), outlook.slowed, state.job.roles, *types)
            curves = alike.get(key)
        if curves is None:
            prospect = Prospect(view, state, now)
            curves = alike[key] = curves_of(prospect, types, memory.capacity, thrift)
        if known is not None and known.holds_the_same(view, state):
            known = known.believing(view, outlook, curves)
        else:
            known = Bid(view, state, outlook, curves)
    return known.to_deal(outlook)
