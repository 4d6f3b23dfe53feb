"""Spans: idle devices of another type, lent to a job that may mix types.

The runtime balances a batch over unequal devices, so a job that it resizes live can use an A100 and the
T4 that nobody else wants, unless its user wants devices of one generation. After the deal:

1. each such job that runs, the highest worth first, is offered what is left of the other types;
2. it takes the number that makes it fastest (`perf.mixture`, corrected by what its application has
   measured), if that pays for taking and giving back, and by more than the errors of predictions;
3. it keeps them as long as they help at all. Whoever else wants them is dealt them first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from muster.perf.mixture import mixed_rate
from muster.policy.market.bids import ABOUT, Bid
from muster.policy.market.prices import sizes
from muster.policy.room import Room

GAINS = 3 * ABOUT
"""Least gain for which unequal devices are taken: several predictions are in it."""


@dataclass(slots=True)
class Spans:
    """What is left of each type for jobs of one pool, after the deal."""

    room: Room
    horizon: float
    now: float

    def lend(self, bids: Sequence[Bid]) -> float:
        """Lend idle devices of other types; return when to ask again."""
        again = inf
        several = (bid for bid in bids if len(bid.curves) > 1 and may_span(bid))
        for bid in sorted(several, key=_least_worth):
            if bid.held:
                self._widen(bid)
            elif self._types(bid):
                again = min(again, self.now + bid.pause)
        return again

    def _widen(self, bid: Bid) -> None:
        """Lend a running job of one type after the other, as long as that helps."""
        workers = {bid.type: bid.workers}
        best = self._worth(bid, workers)
        for each in sorted(self._types(bid), key=lambda each: -bid.outlook.speed.rate(each, 1)):
            most = min(self.room.most(bid.job, each), bid.job.workers.most - sum(workers.values()))
            offers = [{**workers, each: count} for count in sizes(1, most)]
            found = max(offers, key=lambda offer: self._worth(bid, offer), default=workers)
            needed = best if _had(bid) == found else best * (1 + GAINS)
            if self._worth(bid, found) > needed:
                workers, best = found, self._worth(bid, found)
                self.room.take(bid.job, each, found[each])
                bid.beside[each] = found[each]

    def _types(self, bid: Bid) -> list[str]:
        """Return the other types that have devices left for it."""
        return [each for each in bid.curves if each != bid.type and self.room.most(bid.job, each)]

    def _worth(self, bid: Bid, workers: dict[str, int]) -> float:
        """Return its speed there, less the pauses of taking and of giving back, out of the s for which
        its shares last."""
        rate = mixed_rate(bid.outlook.speed, workers)
        if len(workers) > 1:
            rate *= bid.outlook.mixing
        if rate <= 0.0 or workers == _had(bid):
            return rate
        lasts = min(bid.pause + bid.left / rate, bid.stays(self.horizon, self.now))
        return rate * (1.0 - min(1.0, 2 * bid.pause / lasts))


def may_span(bid: Bid) -> bool:
    """Whether it may have devices of several types, and could use more than it is dealt."""
    job = bid.job
    live = job.mixes and job.elastic and not job.restarts and len(job.roles) == 1
    stays = not bid.held or bid.type == bid.type_held
    return live and job.preemptible and stays and 0 < bid.workers < job.workers.most


def _had(bid: Bid) -> dict[str, int]:
    return {bid.type_held or "": bid.held, **bid.had_beside}


def _least_worth(bid: Bid) -> tuple[float, int]:
    return (-bid.price, bid.number)
