"""Stops that do not pay for the start that they cost.

A deal compares what a device is worth to each job from now on. A stopped job has to start again, which
costs the work of its start, once; what others gain by its devices they gain until they end. So a deal
that stops jobs stands if

    sum over who gains of gain x s for which it lasts  >=  sum over who is stopped of c s(k) start

both in s of waiting. Else the job that started last keeps its gang, the rest is dealt again, and so on.

A job that was just started is the usual case: others could not be changed while it was, and now that
they can, each of them may be worth a little more; a moment later beliefs change again. So none is
stopped before it has worked for as long as its start took: of the time that it has devices, starts take
half at the most, and it can show its first steps.

Both hold unless a job waits that is to be served whatever the price.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from muster.policy.market.bids import Bid
from muster.policy.market.deal import Offer, deal

TRIES = 8
"""Most deals: each keeps one more job running."""


@dataclass(slots=True)
class Stops:
    """A deal of one type's devices."""

    device_type: str
    devices: int
    horizon: float
    bonus: float
    """Above any sum of worths: a job that is to keep its gang."""
    now: float
    again: float = inf
    """When a job that was just started could be stopped."""

    def deal(self, bids: Sequence[Bid], offers: list[Offer], *, must_pay: bool) -> list[int]:
        """Return the index of the count each offer gets; `must_pay`: whether nobody overdue waits."""
        for i, bid in enumerate(bids if must_pay else ()):
            if bid.held and self.now < bid.worked_at and self._held(bid, offers[i]):
                offers[i] = raised(offers[i], self.bonus)
                self.again = min(self.again, bid.worked_at)
        places = deal(offers, self.devices)
        for _ in range(TRIES if must_pay else 0):
            stopped = [i for i, bid in enumerate(bids) if not places[i] and self._held(bid, offers[i])]
            if not stopped or self._pays(bids, offers, places, stopped):
                break
            last = max(stopped, key=lambda i: (bids[i].state.started or 0.0, bids[i].number))
            offers[last] = raised(offers[last], self.bonus)
            places = deal(offers, self.devices)
        return places

    def _held(self, bid: Bid, offer: Offer) -> int:
        """Return the place in its offer of what it has here; 0: nothing, or it is not on offer."""
        devices = bid.held * bid.each if bid.type_held == self.device_type else 0
        return offer.counts.index(devices) if devices in offer.counts else 0

    def _pays(
        self, bids: Sequence[Bid], offers: Sequence[Offer], places: Sequence[int], stopped: list[int]
    ) -> bool:
        """Whether what all gain together, as long as it lasts, is worth the starts that it costs."""
        gained = lost = lasting = 0.0
        for bid, offer, place in zip(bids, offers, places, strict=True):
            more = offer.values[place] - offer.values[self._held(bid, offer)]
            if more > 0.0:
                workers = offer.counts[place] // bid.each
                gained += more
                lasting += more * bid.lasts(self.device_type, workers, self.horizon)
            lost -= min(0.0, more)
        if gained <= lost:
            return True  # nothing to compare: counts that are not on offer any more
        cost = sum(bids[i].stop_cost() for i in stopped)
        return (gained - lost) * lasting / gained >= cost


def raised(offer: Offer, bonus: float) -> Offer:
    """Return an offer that is served before all others."""
    return Offer(offer.counts, (0.0, *(value + bonus for value in offer.values[1:])))
