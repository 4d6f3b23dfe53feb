"""Muster's own policy, the default: least mean completion time, at the true price of every change.

Rule. In each pool, which is dealt what it is entitled to, by itself:

1. Every live job has a price c, in s per unit of its work, that makes greed optimal (see `prices`,
   which extends heSRPT to jobs with any speed-ups): short jobs are dear, long ones cheap but never
   nothing. An uncertain length counts as a certain one of the same Gittins index (see `uncertainty`).
   A step of `priority` doubles a job's weight: a second of its waiting counts as two of another's.
2. k workers of speed s(k) are worth c s(k) to a job that has them. To any other they are worth
   c s(k) (1 - pause / h): it loses its pause, out of the h s that it will have them for, which is until
   it ends and at most `horizon`. So a running job is changed only if that gains more than the pause
   costs it, and jobs that have to make way weigh the same way. A job that is spread over more nodes
   than it needs counts where it is with the speed measured there, `here`, and for `horizon` s after it
   has left as if it would be spread again. Before the pause of a change is over, it is not undone.
3. Devices are dealt so that what they are worth together is the most (see `deal`). Where there are
   several types, a job is dealt to on that on which it was priced, or, if it runs, on the one it has
   unless the other is worth more beyond what the devices are worth to others (`Market.margin`).
4. Nobody starves. A job's fair share is its part, by weight, of the pool's devices. One that waits gets
   its gang before prices are asked once 1/`guarantee` of its fair share since its submission, less what
   it has had, would have run its gang for `horizon`; it then keeps it as long. So with equal weights a
   job whose gang takes g of n devices, m jobs being there, first waits at most
   guarantee * horizon * max(g m / n, g / (its most)) s (with others so overdue, the most overdue first,
   all of them together being due 1/`guarantee` of the devices).

Prices depend on work left and speeds only, not on who holds what, and having what is dealt makes it
worth more: asked again once the first changes are made, the policy wants the same.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf

from muster.model.pool import Entitlements
from muster.model.view import Phase, View
from muster.policy.base import Allocation, Shares, exactly
from muster.policy.bids import Bid, BidMemory, bid_on
from muster.policy.deal import Offer, deal
from muster.policy.prices import Market, upto
from muster.policy.room import Room


@dataclass(frozen=True, slots=True)
class Muster:
    """Prices of work, the pause of a change, and a share that nobody is denied."""

    name: str = "muster"
    informed: bool = True
    horizon: float = 600.0
    """s for which a share is taken to last: Optimus decides anew every 10 min (EuroSys'18)."""
    guarantee: float = 8.0
    """A job gets at least one in so many of its fair share: so many devices at most are due to the
    guarantee, and all others go where they do most."""

    def allocate(self, view: View, entitlements: Entitlements, now: float, memory: object) -> Shares:
        """Workers for every job that can be changed now, pool by pool."""
        room = Room(view, entitlements)
        movable = {state.number for state in room.movable}
        if not isinstance(memory, BidMemory) or memory.capacity != entitlements.capacity:
            memory = BidMemory(dict(entitlements.capacity))
        pools: dict[str, list[Bid]] = defaultdict(list)
        told: list[Allocation] = []
        for state in view.jobs.values():
            if state.job.workers.need.devices:
                bid = bid_on(view, state, room.types(state.job), now, memory)
                pools[state.job.pool].append(bid)
            elif state.number in movable:
                told.append(exactly(state.number, state.job.workers.gang))
        measured = {}
        for bid in (bid for bids in pools.values() for bid in bids):
            known = bid.remember(memory.measured.get(bid.number, ()), now - self.horizon, now)
            if known:
                measured[bid.number] = known
        again = inf
        for bids in pools.values():
            deal_out = _Deal(self, room, bids, movable, now)
            told += deal_out.run()
            again = min(again, deal_out.again)
        curves = {
            bid.number: (bid.outlook.speed, bid.job.roles, bid.curves)
            for bids in pools.values()
            for bid in bids
        }
        return Shares(
            tuple(told), replace(memory, curves=curves, measured=measured), steers=True, again=again
        )


class _Deal:
    """One pool's devices and jobs."""

    def __init__(
        self, rule: Muster, room: Room, bids: Sequence[Bid], movable: set[int], now: float
    ) -> None:
        self._rule = rule
        self._room = room
        self._now = now
        self._bids = bids
        self._open = [bid for bid in bids if bid.number in movable]
        self._free = self._most(self._open)
        self._all = dict(self._free)
        """With what jobs hold that cannot be changed now: prices count everybody."""
        for bid in bids:
            if bid.type_held is not None and bid.number not in movable and _holds(bid):
                self._all[bid.type_held] = self._all.get(bid.type_held, 0) + bid.held * bid.each
        self._market = Market(self._all)
        self.again = inf
        """When somebody who waits will be overdue."""

    def run(self) -> list[Allocation]:
        """What everybody gets who can be changed now."""
        for bid in sorted(self._bids, key=self._ends_last):
            ladders = {each: curve.ladder for each, curve in bid.curves.items()}
            bid.price, bid.type = self._market.enter(ladders, bid.weight)
        overdue = self._overdue()
        bonus = 4.0 * sum(bid.weight for bid in self._bids)
        """Above anything prices could be worth together."""
        for bid in self._open:
            if self._stays(bid):
                bid.type = bid.type_held or ""
        for each in self._free:
            wants = [bid for bid in self._open if bid.type == each]
            self._deal(each, wants, overdue, bonus)
        for each in self._free if len(self._free) > 1 else ():
            spare = [bid for bid in self._open if not bid.workers and each in bid.curves]
            self._deal(each, spare, overdue, bonus)
        order = sorted(self._open, key=lambda bid: (bid.number not in overdue, -bid.workers * bid.each))
        return [bid.gets() for bid in order]

    def _most(self, bids: Iterable[Bid]) -> dict[str, int]:
        """Devices of each type that the pool has for these jobs."""
        alike = {(bid.job.preemptible, bid.each, each): bid for bid in bids for each in bid.curves}
        found: dict[str, int] = {}
        for (_, devices, each), bid in alike.items():
            most = self._room.most(bid.job, each) * devices
            found[each] = max(found.get(each, 0), most)
        return found

    def _ends_last(self, bid: Bid) -> tuple[float, float, int]:
        return (-bid.time(self._all), -bid.state.submitted, bid.number)

    def _stays(self, bid: Bid) -> bool:
        """Whether it is better off with the type it has than with that on which it was priced."""
        held = bid.type_held
        if held is None or held == bid.type or held not in bid.curves:
            return False
        return bid.type not in bid.curves or self._merit(bid, held) >= self._merit(bid, bid.type)

    def _merit(self, bid: Bid, device_type: str) -> float:
        offer = bid.offer(device_type, self._rule.horizon, self._now)
        margin = self._market.margin(device_type)
        within = upto(offer.counts, self._free.get(device_type, 0))
        return (
            max(offer.values[i] - margin * offer.counts[i] for i in range(1, within))
            if within > 1
            else -inf
        )

    def _deal(
        self, device_type: str, bids: Sequence[Bid], overdue: dict[int, float], bonus: float
    ) -> None:
        """Deal the type's devices to these jobs, those that are overdue first."""
        devices = max(self._most(bids).get(device_type, 0), 0)
        first = _fitting(bids, overdue, devices)
        offers = [bid.offer(device_type, self._rule.horizon, self._now) for bid in bids]
        for i, bid in enumerate(bids):
            if bid.number in first:
                raised = tuple(value + bonus for value in offers[i].values[1:])
                offers[i] = Offer(offers[i].counts, (0.0, *raised))
        for bid, offer, place in zip(bids, offers, deal(offers, devices), strict=True):
            if not place:
                continue
            workers = min(offer.counts[place] // bid.each, self._room.most(bid.job, device_type))
            if workers >= max(1, bid.job.workers.gang):
                bid.type, bid.workers = device_type, workers
                self._room.take(bid.job, device_type, workers)

    def _overdue(self) -> dict[int, float]:
        """Jobs to be served before prices are asked, and the s by which they are overdue."""
        weights = sum(bid.weight for bid in self._bids)
        found: dict[int, float] = {}
        for bid in self._open:
            fair = sum(self._all.get(each, 0) for each in bid.curves) * bid.weight / weights
            due = min(fair, bid.job.workers.most * bid.each) / self._rule.guarantee
            if due <= 0:
                continue
            had, gang = bid.state.attained(self._now), bid.job.workers.gang * bid.each
            since = bid.state.since
            begun = since is not None and self._now < since + self._rule.horizon
            owed = had + (0.0 if begun else gang * self._rule.horizon)
            moment = bid.state.submitted + owed / due
            if moment <= self._now and (begun or not bid.held):
                found[bid.number] = self._now - moment
            elif not bid.held:
                self.again = min(self.again, moment)
        return found


def _holds(bid: Bid) -> bool:
    """Whether it keeps what it holds: what is being stopped does not."""
    return bid.state.phase is not Phase.PREEMPTING


def _fitting(bids: Sequence[Bid], overdue: dict[int, float], devices: int) -> set[int]:
    """Of those that are overdue as many as there are devices for, the most overdue first."""
    found = set()
    waits = [bid for bid in bids if bid.number in overdue]
    for bid in sorted(waits, key=lambda bid: (-overdue[bid.number], bid.number)):
        gang = bid.job.workers.gang * bid.each
        if gang <= devices:
            found.add(bid.number)
            devices -= gang
    return found
