"""What makes a job more urgent than its length does: being late, and being the last to end.

Fair. Jobs that ask for a devices are a crowd of C = a / n on n devices; with a fair share a job of L s
on what it asks for ends after L times the mean crowd of its life. Its finish-time ratio (Themis,
NSDI'20; crowd as in Shockwave, NSDI'23) is its own time over that. One that was submitted T s ago, has
had R s of what it asks for and needs q s more, run from now on, would have

    rho = (T + q) / fair,    fair = (R + q) max(1, (crowd-seconds so far + C q) / (T + q)).

While a job would still end early, a second of its waiting counts as any other's. Once its time exceeds
the part `EARLY` of the fair one (and R + q: without a crowd nobody is late who has not waited), it
counts as many times that as they differ, to the power `STEEP`, `MOST` times in the end: what is late
overtakes what is short, the more the later it is. From rho = `LATEST` on it is served whatever its
price: a wide gang never gets its devices from jobs that come and go one by one.

In time. All the work left takes at least W / n s, and a job at least the r s that it has left at its
best. Where r is more, that job alone decides when the last one ends. With the part m (`makespan`) of
the weight on that end, a job is served whatever its price once

    m r >= (1 - m) W / n:

never for m = 0, just in time for 1/2, longest first for 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import floor, inf, log2

from muster.policy.bids import NOTHING, Bid, Dues

EARLY = 0.7
"""Finish-time ratio up to which waiting counts the same for all."""
STEEP = 2.0
"""Power by which it grows from there on: twice as much at a ratio of 1."""
MOST = 8.0
"""Most times that it counts: lengths may be misjudged, and what is firm shall stand."""
LATEST = 1.4
"""Finish-time ratio from which on a job is served whatever its price."""
FINE = 4
"""Steps in which it doubles."""
INSTANT = 1e-9
"""s; a job that ends as soon as it begins still has a ratio."""


class Urgency:
    """One pool's jobs at one moment."""

    def __init__(
        self, bids: Sequence[Bid], devices: Mapping[str, int], dues: Dues | None, now: float
    ) -> None:
        self._bids = bids
        self._devices = devices
        self._now = now
        whole = sum(devices.values())
        self._crowd = sum([bid.weight * bid.asked for bid in bids]) / whole if whole else 1.0
        """Devices asked for over those there, by weight."""
        self.crowded = self._so_far(bids, dues)
        """Crowd-seconds of each job's life."""
        self._known: dict[tuple[int, float], tuple[float, float, float]] = {}
        """The times of each job: `counts` and `late` ask for the same."""

    def _so_far(self, bids: Iterable[Bid], dues: Dues | None) -> dict[int, float]:
        known, since = (dues.crowded, dues.at) if dues else ({}, -inf)
        found, crowd, now = {}, self._crowd, self._now
        for bid in bids:  # hot path: of every job in every cycle, so calls count
            begin = bid.state.submitted
            begin = since if since > begin else begin
            lived = now - begin if now > begin else 0.0
            found[bid.number] = known.get(bid.number, 0.0) + crowd / bid.weight * lived
        return found

    def counts(self, bid: Bid, holds: float) -> float:
        """Return how many times a second of its waiting counts."""
        life, fair, alone = self._times(bid, holds)
        late = max(1.0, life / max(EARLY * fair, alone))
        if late == 1.0:
            return 1.0
        # In steps, so that prices, which follow by difference, change seldom.
        return min(MOST, float(2.0 ** (floor(FINE * STEEP * log2(late)) / FINE)))

    def late(self, bids: Iterable[Bid], holds: float) -> dict[int, float]:
        """Return the jobs that would end far too late even now, and by how many s."""
        every = ((bid.number, self._times(bid, holds)) for bid in bids)
        beyond = ((number, life - LATEST * fair) for number, (life, fair, _) in every)
        return {number: seconds for number, seconds in beyond if seconds > 0.0}

    def _times(self, bid: Bid, holds: float) -> tuple[float, float, float]:
        """Return the s of its life if it runs from now on, those with a fair share, and alone.

        The first `holds` s of its life are left out, as any start takes a while, and what it has had
        for less than that: else it would make way for the next as soon as it has begun.
        """
        key = (bid.number, holds)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._work_out(bid, holds)
        return known

    def _work_out(self, bid: Bid, holds: float) -> tuple[float, float, float]:
        needs, gang, state = _alone(bid), bid.asked, bid.state
        if needs == inf or not gang:
            return INSTANT, INSTANT, INSTANT
        since, now = state.since, self._now
        begun = since is not None and now < since + holds
        had = (state.served if begun else state.attained(now)) / gang
        waited = now - state.submitted - holds
        life = waited + needs if waited > 0.0 else needs
        crowded = self.crowded[bid.number] + self._crowd / bid.weight * needs
        alone = max(INSTANT, had + needs)
        fair = alone * max(1.0, crowded / max(INSTANT, life))
        return life, fair, alone

    def critical(self, bids: Iterable[Bid], makespan: float) -> dict[int, float]:
        """Return the jobs on which the end of the last one depends, and by how many s."""
        devices = sum(self._devices.values())
        if not makespan or not devices:
            return {}
        rest = (1.0 - makespan) * sum([bid.left * bid.cheapest for bid in self._bids]) / devices
        margins = {bid.number: makespan * bid.rest(self._devices) - rest for bid in bids}
        return {number: margin for number, margin in margins.items() if margin >= 0.0}


def _alone(bid: Bid) -> float:
    """Return the s left on its gang alone, on its best type; inf: it cannot run here."""
    best = bid.gang_rate
    return bid.starts + bid.outlook.left / best if best > NOTHING else inf
