"""Muster's own policy, the default: least mean completion time, counting the cost of every change.

Rule. In each pool separately, within its entitlement:

1. Every live job has a price c, in s per unit of its work, that makes greedy dealing optimal (see
   `prices`, which extends heSRPT to any speed-ups): high for short jobs, low but above 0 for long ones.
   An uncertain length counts as a certain one of the same Gittins index (see `uncertainty`). A step of
   `priority` doubles a job's weight: a second of its waiting counts as two of another's.
2. k workers of speed s(k) are worth c s(k) to a job that has them. To any other they are worth
   c s(k) (1 - pause / h): it loses its pause, out of the h s that it will have them for, until it ends
   and at most `horizon`, or as long as shares of the pool and of this job have lasted, if that is less.
   So a running job is changed only if that gains more than its pause costs, and stopped only if that
   pays for another start (see `stops`). A job spread over more nodes than it needs counts there with
   the speed measured, `here`, and for `horizon` s after leaving as if it would be spread again. No
   change is undone before its pause ends, nor, while nobody waits, before it could be measured
   (`STANDS`).
3. Devices are dealt for the largest total worth (see `deal`). With several types, each job is dealt
   the one where it adds most beyond what it takes from others (see `type_choice`). What is left of a
   type may be lent to a job on another one (see `spans`).
4. No job starves. A job's fair share is its part, by weight, of the pool's devices. A waiting job gets
   its gang regardless of prices once 1/`guarantee` of its fair share since submission, less what it has
   had, would have run its gang for `horizon`; it then keeps it as long. So with equal weights a job
   whose gang takes g of n devices, among m jobs, first waits at most
   guarantee * horizon * max(g m / n, g / (its most)) s (with several overdue, the most overdue first,
   all of them together being due 1/`guarantee` of the devices).

Prices depend on work left and speeds only, not on current holdings, and holding what is dealt makes it
worth more: called again after the first changes, the policy wants the same.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, ClassVar

from muster.model.pool import Entitlements
from muster.model.view import Phase, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.market.ample import best_for_all, may_fit, uniform
from muster.policy.market.bids import STANDS, Alike, Bid, BidMemory, Dues, Measured, Trial, bid_on
from muster.policy.market.deal import Offer, deal
from muster.policy.market.offers import table_of
from muster.policy.market.price_list import PriceList, price_all
from muster.policy.market.spans import Spans
from muster.policy.market.stops import Stops
from muster.policy.market.table import OfferTable
from muster.policy.market.trials import Trials
from muster.policy.market.type_choice import choose_types
from muster.policy.market.uncertainty import FIRMEST
from muster.policy.market.urgency import Urgency
from muster.policy.merits import by_worth
from muster.policy.room import Room

AGAIN, AGE = 60.0, 0.1
"""s after which the policy asks about jobs that still show how fast they are: at least, for each that
runs (many of them cause cycles enough), and as a part of those since the last change."""


@dataclass(frozen=True, slots=True)
class Muster:
    """Prices of work, the pause of a change, and a guaranteed share."""

    name: str = "muster"
    informed: bool = True
    horizon: float = 600.0
    """s for which a share is assumed to last: Optimus decides every 10 min (EuroSys'18)."""
    guarantee: float = 8.0
    """A job gets at least 1/`guarantee` of its fair share; all other devices go where they do most."""
    makespan: float = field(default=0.45, metadata={"range": (0.0, 1.0)})
    """How much the end of the last job counts: 0 not at all, 1 alone (see `urgency`)."""
    fair: float = field(default=0.5, metadata={"range": (0.0, 1.0)})
    """How much being late counts: 0 not at all; the more, the more others wait for a job that would
    soon be late (see `urgency`)."""
    thrift: float = field(default=0.0, metadata={"range": (0.0, 1.0)})
    """Least work per device, as a part of the most that a job could do with one (see `bids`): 0 lets it
    have as many devices as help it, 1 only those with which it wastes nothing."""
    aims: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "balanced": {},
        "mean": {"makespan": 0.0, "fair": 0.0},
        "fair": {"makespan": 0.0, "fair": 1.0},
        "makespan": {"makespan": 1.0},
        "per_device": {"thrift": 1.0},
    }
    """What it may be told to care for most; balanced: what it does by default."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Allocate workers to every job that can be changed now, pool by pool."""
        room = Room(view, entitlements)
        movable = {state.number for state in room.movable}
        if not isinstance(memory, BidMemory) or memory.capacity != entitlements.capacity:
            past = memory.dues if isinstance(memory, BidMemory) else None
            memory = BidMemory(dict(entitlements.capacity), dues=past)
        pools: dict[str, list[Bid]] = defaultdict(list)
        allocations: list[Allocation] = []
        alike: Alike = {}
        choices: dict[tuple[str, ...], tuple[str, ...]] = {}
        last, outlooks, turned = memory.bids, view.outlooks, memory.turns
        for number, state in view.jobs.items():
            job = state.job
            before, outlook = last.get(number), outlooks.get(number)
            if before is not None and outlook is not None and before.is_of(view, state, outlook):
                bid = before.to_deal(outlook)  # most jobs, in most cycles
            elif job.workers.need.devices:
                types = choices.get(job.device_types)
                if types is None:
                    types = job.device_types and room.types(job)
                    types = types or tuple(sorted(room.types(job)))
                    choices[job.device_types] = types
                bid = bid_on(view, state, types, now, memory, alike, self.thrift)
            else:
                if number in movable:
                    allocations.append(exactly(number, job.workers.gang))
                continue
            bid.turn = turned.get(number)
            pools[job.pool].append(bid)
        measured = self._remembered(pools, memory.measured, now)
        again, trials, turns = inf, dict[int, Trial](), dict[int, bool]()
        prices, margins, crowded = {}, {}, dict[int, float]()
        deals: list[tuple[Sequence[Bid], Collection[int]]] = []
        for pool, bids in pools.items():
            deal_out = _Deal(self, room, bids, movable, now, memory.dues)
            deal_out.margins = dict(memory.margins.get(pool, {}))
            allocations += deal_out.run(memory.trials, memory.prices.get(pool))
            prices[pool], margins[pool] = deal_out.prices, deal_out.margins
            deals.append((bids, deal_out.overdue))
            again = min(again, deal_out.again)
            trials |= deal_out.trials
            turns |= deal_out.turns
            crowded |= deal_out.urgency.crowded
        made = {bid.number: bid.origin for bids in pools.values() for bid in bids}
        calm = memory.calm.on(view, now)
        if _some_wait(view, allocations):
            again = min(again, calm.next_look(now, self.horizon))
        noted = replace(memory, bids=made, measured=measured, trials=trials, turns=turns)
        kept = replace(noted, dues=Dues(now, crowded), calm=calm)
        return Shares(
            tuple(allocations),
            replace(kept, prices=prices, margins=margins),
            steers=True,
            again=again,
            asks=True,
            merits=partial(by_worth, deals),
        )

    def _remembered(
        self, pools: Mapping[str, list[Bid]], seen: Mapping[int, tuple[Measured, ...]], now: float
    ) -> dict[int, tuple[Measured, ...]]:
        """Return what was measured of jobs on more nodes than they need, as long as it counts."""
        found = {}
        for bids in pools.values():
            for bid in bids:
                if bid.here_only is not None or bid.number in seen:  # few jobs, in most cycles
                    known = bid.remember(seen.get(bid.number, ()), now - self.horizon, now)
                    if known:
                        found[bid.number] = known
        return found


class _Deal:
    """One pool's devices and jobs."""

    def __init__(
        self,
        rule: Muster,
        room: Room,
        bids: Sequence[Bid],
        movable: set[int],
        now: float,
        dues: Dues | None,
    ) -> None:
        self._rule = rule
        self._room = room
        self._now = now
        self._bids = bids
        self._movable = movable
        self._open = [bid for bid in bids if bid.number in movable]
        self._uniform = uniform(self._open, room)
        """Whether devices are taken for all of them as for one of them."""
        self._free = self._most(self._open)
        self._all = dict(self._free)
        """With what unchangeable jobs hold: prices count every job."""
        for bid in bids:
            if bid.type_held is not None and bid.number not in movable and _holds(bid):
                self._all[bid.type_held] = self._all.get(bid.type_held, 0) + bid.held * bid.each
        self.urgency = Urgency(bids, self._all, dues, now)
        self._wanted = any(not bid.held for bid in bids)
        """Whether a job waits."""
        self._lasts = self._lasting()
        """s for which a share lasts in this pool."""
        self.again = inf
        """When a waiting job will be overdue, or a trial begins or ends."""
        self.trials: dict[int, Trial] = {}
        self.turns: dict[int, bool] = {}
        self.prices: PriceList
        self.margins: dict[str, float] = {}
        """What a device of each type was worth in the last deal."""
        self.overdue: Collection[int] = ()
        """Jobs served regardless of prices."""

    def run(self, trials: Mapping[int, Trial], last: PriceList | None = None) -> list[Allocation]:
        """Return allocations of the jobs that can be changed now; `last`: the prices before."""
        overdue = self._overdue()
        self._add_urgent(overdue)
        self.overdue = overdue
        self.prices = last or PriceList({}, (), (), {})
        urgent = sorted(overdue, key=lambda each: (-overdue[each], each))
        if not self._serve_all(urgent):
            self._deal_by_price(last, overdue)
        tested = {number for number, trial in trials.items() if trial.open}
        spans = Spans(self._room, self._lasts, self._now)
        spanning = [b for b in self._open if b.number not in tested and not self._rule.thrift]
        self.again = min(self.again, spans.lend(spanning))
        self._try(trials)
        self._note_turns()
        self._ask_again()
        order = sorted(self._open, key=lambda bid: -bid.workers * bid.each)
        if overdue:
            order.sort(key=lambda bid: bid.number not in overdue)
        return [bid.gets() for bid in order]

    def _serve_all(self, urgent: Sequence[int]) -> bool:
        """Give everybody what it asks for, if that is to be had."""
        if len(self._free) != 1:
            return False
        ((device_type, devices),) = self._free.items()
        if not self._uniform or not may_fit(self._open, device_type, devices):
            return False
        given = (self._open, device_type, devices, self._lasts, self._now)
        shares = best_for_all(*given, wanted=self._wanted, first=urgent)
        if shares is None:
            return False
        taken = 0
        for bid, workers in zip(self._open, shares, strict=True):
            bid.type, bid.workers = device_type, workers
            taken += workers * bid.each
        if self._open:
            self._room.take_for_all(self._open[0].job, device_type, taken)
        return True

    def _deal_by_price(self, last: PriceList | None, overdue: dict[int, float]) -> None:
        """Deal every type where it is worth most."""
        order = sorted(
            self._bids, key=lambda bid: (-bid.time(self._all), -bid.state.submitted, bid.number)
        )
        entrants = [(bid.curves, bid.weight) for bid in order]
        self.prices = price_all(entrants, self._all, last)
        for bid, found in zip(order, self.prices.found, strict=True):
            bid.price, bid.type = found
        if len(self._free) > 1:
            self._choose_types()
        # Of when it runs, not of where: on another type it would take more from others than it gains.
        risks = self.urgency.risks(self._bids, self._rule.fair)
        for bid in self._bids if risks else ():
            bid.price *= 1.0 + risks.get(bid.number, 0.0)
        most = FIRMEST * (1.0 + max(risks.values(), default=0.0))
        bonus = 4.0 * most * sum(bid.weight for bid in self._bids)
        """Above any possible sum of worths."""
        for each in self._free:
            wants = [bid for bid in self._open if bid.type == each]
            self._deal(each, wants, overdue, bonus)
        for each in self._free if len(self._free) > 1 else ():
            spare = [bid for bid in self._open if not bid.workers and each in bid.curves]
            self._deal(each, spare, overdue, bonus)

    def _most(self, bids: Iterable[Bid]) -> dict[str, int]:
        """Return the devices of each type that the pool has for these jobs."""
        alike: dict[tuple[bool, int, str], Bid] = {}
        for bid in bids:
            for each in bid.curves:
                alike[bid.job.preemptible, bid.each, each] = bid
        found: dict[str, int] = {}
        for (_, devices, each), bid in alike.items():
            most = self._room.most(bid.job, each, any_user=True) * devices
            found[each] = max(found.get(each, 0), most)
        return dict(sorted(found.items()))

    def _lasting(self) -> float:
        """Return the s for which shares have lasted, with one change in `horizon` as the prior."""
        held = [bid for bid in self._bids if bid.held]
        ages = sum([self._now - bid.state.submitted for bid in held])
        changes = sum([bid.changes for bid in held])
        horizon = self._rule.horizon
        return min(horizon, (horizon + ages) / (1 + changes))

    def _choose_types(self) -> None:
        """Set the type that each job is dealt."""
        devices = {each: max(0, count) for each, count in self._free.items()}
        offers = [self._offers(bid) for bid in self._open]
        held = [bid.type_held or bid.type for bid in self._open]
        for bid, each in zip(self._open, choose_types(offers, devices, held), strict=True):
            bid.type = each

    def _offers(self, bid: Bid) -> dict[str, Offer]:
        """Return what each type is worth to it; a change just made is not undone."""
        held = bid.type_held
        if held is not None and held in bid.curves and not bid.settled(self._now - STANDS):
            return {held: self._offer(bid, held)}
        return {each: self._offer(bid, each) for each in bid.curves}

    def _offer(self, bid: Bid, device_type: str) -> Offer:
        return bid.offer(device_type, self._lasts, self._now, wanted=self._wanted)

    def _deal(
        self, device_type: str, bids: Sequence[Bid], overdue: dict[int, float], bonus: float
    ) -> None:
        """Deal the type's devices to these jobs, overdue ones first."""
        # Those of everybody are known; nothing has been given out yet where there is one type.
        alone = len(self._free) == 1 and len(bids) == len(self._open)
        devices = max((self._free if alone else self._most(bids)).get(device_type, 0), 0)
        first = _fitting(bids, overdue, devices)
        table = table_of(bids, device_type, self._lasts, self._now, wanted=self._wanted)
        for row, bid in enumerate(bids):
            if bid.number in first:
                table.put_first(row, bonus)
        self._keep_user_limits(bids, table)
        table.price = self.margins.get(device_type, 0.0)
        stops = Stops(device_type, devices, self._rule.horizon, bonus, self._now)
        waits = any(bid.number in first and not bid.held for bid in bids)
        picks = stops.deal(bids, table, must_pay=not waits)
        self.margins[device_type] = table.price
        if self._wanted:
            self.again = min(self.again, stops.again)
        given = [sizes[pick] for sizes, pick in zip(table.sizes, picks, strict=True)]
        if self._uniform and bids:
            for bid, count in zip(bids, given, strict=True):
                if count:
                    bid.type, bid.workers = device_type, count // bid.each
            self._room.take_for_all(bids[0].job, device_type, sum(given))
        else:
            self._take(device_type, bids, given)

    def _take(self, device_type: str, bids: Sequence[Bid], given: Sequence[int]) -> None:
        """Give the jobs these devices, one after the other, as far as there is room."""
        for bid, count in zip(bids, given, strict=True):
            workers = min(count // bid.each, self._room.most(bid.job, device_type)) if count else 0
            if workers >= max(1, bid.job.workers.gang):
                bid.type, bid.workers = device_type, workers
                self._room.take(bid.job, device_type, workers)

    def _try(self, known: Mapping[int, Trial]) -> None:
        """Lend idle devices to jobs that may be faster with them than is believed."""
        fixed = [bid.number for bid in self._bids if bid.number not in self._movable]
        self.trials = {number: known[number] for number in fixed if number in known}
        held = Trials(known, self._room, self._rule.horizon, self._now)
        if not any(trial.open for trial in self.trials.values()):
            found, again = held.hold(self._open)
            self.trials |= found
            self.again = min(self.again, again)
        else:
            self.trials |= {bid.number: known[bid.number] for bid in self._open if bid.number in known}

    def _note_turns(self) -> None:
        """Note in which direction jobs were changed last."""
        open_now = self._movable
        for bid in self._bids:
            changes = bid.number in open_now and (bid.workers != bid.held or not bid.workers)
            turn = bid.turned(wanted=self._wanted) if changes else bid.turn
            if turn is not None:
                self.turns[bid.number] = turn

    def _ask_again(self) -> None:
        """Ask for a cycle while beliefs may still change what a job should have: where few jobs run,
        and nothing happens, nobody would act upon what they show."""
        held = [bid for bid in self._open if bid.workers]
        since = [
            self._now if bid.state.since is None else bid.state.since
            for bid in held
            if bid.job.elastic and bid.outlook.spread > 0.0
        ]
        if since:
            pause = max(AGAIN * len(held), AGE * (self._now - max(since)))
            self.again = min(self.again, self._now + pause)

    def _keep_user_limits(self, bids: Sequence[Bid], table: OfferTable) -> None:
        """Cut each offer to what it would get if its user's jobs had the user's limit to themselves."""
        users: dict[str, list[int]] = defaultdict(list)
        for row, bid in enumerate(bids):
            if self._room.limits_users(bid.job):
                users[bid.job.user].append(row)
        for rows in users.values():
            left = self._room.left_to_user(bids[rows[0]].job)
            offers = [table.offer(row) for row in rows]
            for row, offer, most in zip(rows, offers, deal(offers, left), strict=True):
                table.cut(row, offer.counts[most])

    def _add_urgent(self, overdue: dict[int, float]) -> None:
        """Add those that would be far too late, and those on which the end of the last job depends."""
        fair, holds = self._rule.fair, self._rule.horizon
        late = self.urgency.late(self._open, holds, fair)
        # Within a limit of devices per user it would be one's own jobs that are stopped for it.
        free = [bid for bid in self._open if bid.held or not self._room.limits_users(bid.job)]
        critical = self.urgency.critical(free, self._rule.makespan)
        for number, seconds in (critical | late).items():
            overdue.setdefault(number, seconds)

    def _overdue(self) -> dict[int, float]:
        """Return jobs to serve regardless of prices, and the s by which they are overdue."""
        weights = sum([bid.weight for bid in self._bids])
        found: dict[int, float] = {}
        horizon, there = self._rule.horizon, dict[tuple[str, ...], int]()
        for bid in self._open:
            since = bid.state.since
            begun = since is not None and self._now < since + horizon
            if bid.held and not begun:  # most jobs, in most cycles
                continue
            types = tuple(bid.curves)
            devices = there.get(types)
            if devices is None:
                devices = there[types] = sum(self._all.get(each, 0) for each in types)
            fair = devices * bid.weight / weights
            due = min(fair, bid.most * bid.each) / self._rule.guarantee
            if due <= 0:
                continue
            owed = bid.state.attained(self._now) + (0.0 if begun else bid.asked * horizon)
            moment = bid.state.submitted + owed / due
            if moment <= self._now:
                found[bid.number] = self._now - moment
            elif not bid.held:
                self.again = min(self.again, moment)
        return found


def _some_wait(view: View, allocations: Iterable[Allocation]) -> bool:
    """Whether a job waits, or will."""
    left_out = any(not each.most for each in allocations)
    return left_out or any(each.phase is Phase.WAITING for each in view.jobs.values())


def _holds(bid: Bid) -> bool:
    """Whether it keeps what it holds, that is, is not being stopped."""
    return bid.state.phase is not Phase.PREEMPTING


def _fitting(bids: Sequence[Bid], overdue: dict[int, float], devices: int) -> set[int]:
    """Return the overdue jobs that fit, most overdue first."""
    found = set()
    waits = [bid for bid in bids if bid.number in overdue]
    for bid in sorted(waits, key=lambda bid: (-overdue[bid.number], bid.number)):
        gang = bid.job.workers.gang * bid.each
        if gang <= devices:
            found.add(bid.number)
            devices -= gang
    return found


POLICIES = (Muster(),)
