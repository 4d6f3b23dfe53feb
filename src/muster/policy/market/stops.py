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
from muster.policy.market.table import OfferTable

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

    def deal(self, bids: Sequence[Bid], table: OfferTable, *, must_pay: bool) -> list[int]:
        """Return the column that each job gets; `must_pay`: whether nobody overdue waits."""
        if not must_pay:
            return table.deal(self.devices)
        has = [row for row, at in enumerate(table.held) if at]
        for row in has:
            if self.now < bids[row].worked_at:
                table.put_first(row, self.bonus)
                self.again = min(self.again, bids[row].worked_at)
        picks = table.deal(self.devices)
        for _ in range(TRIES):
            stopped = [row for row in has if not picks[row]]
            if not stopped or self._pays(bids, table, picks, stopped):
                break
            last = max(stopped, key=lambda row: (bids[row].state.started or 0.0, bids[row].number))
            table.put_first(last, self.bonus)
            picks = table.deal(self.devices)
        return picks

    def _pays(
        self, bids: Sequence[Bid], table: OfferTable, picks: Sequence[int], stopped: Sequence[int]
    ) -> bool:
        """Whether what all gain together, as long as it lasts, is worth the starts that it costs."""
        gained = lost = lasting = 0.0
        for row, more in table.gains(picks):
            if more > 0.0:
                workers = table.sizes[row][picks[row]] // bids[row].each
                gained += more
                lasting += more * bids[row].lasts(self.device_type, workers, self.horizon)
            lost -= min(0.0, more)
        if gained <= lost:
            return True  # nothing to compare: counts that are not on offer any more
        cost = sum(bids[row].stop_cost() for row in stopped)
        return (gained - lost) * lasting / gained >= cost
