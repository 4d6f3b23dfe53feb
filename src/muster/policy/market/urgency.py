"""What makes a job more urgent than its length does: being late, and being the last to end.

Devices of several types count by what they do: a slow one as the part of a fast one that it does of the
work left.

Fair. Jobs that ask for a devices are a crowd of C = a / n on n devices; with a fair share a job of L s
on what it asks for ends after L times the mean crowd of its life. Its finish-time ratio (Themis,
NSDI'20; crowd as in Shockwave, NSDI'23) is its own time over that. One that was submitted T s ago, has
had R s of what it asks for and needs q s more, run from now on, would have

    rho = (T + q) / fair,    fair = (R + q) max(1, (crowd-seconds so far + C q) / (T + q)).

From rho = `LATEST` on a job is served whatever its price, the latest first: a wide gang never gets its
devices from jobs that come and go one by one. With `fair` below 1/2, from `LATEST` / (2 `fair`) on.

Before that, a rigid job counts 1 + `RISK` x `fair` x risk times as much as by its price, risk being the
chance that it would be late if it ran a little later, less that if it runs now (see `lateness`): what
its devices can still save it from. So a wide gang outbids jobs that come and go one by one while that
keeps it from being late, and what is late already makes way for what is not. An elastic job does not:
it shrinks before it waits, and what it would take alone on its gang is not what it asks for.

In time. All the work left takes at least W / n s, and a job at least the r s that it has left at its
best. Where r is more, that job alone decides when the last one ends. With the part m (`makespan`) of
the weight on that end, a job is served whatever its price once

    m r >= (1 - m) W / n:

never for m = 0, just in time for 1/2, longest first for 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from muster.policy.market import lateness
from muster.policy.market.bids import NOTHING, Bid, Dues

RISK = 16.0
"""Times, beyond once, that a job counts which is late for sure if it runs later, with `fair` = 1."""
LATEST = 1.4
"""Finish-time ratio from which on a job is served whatever its price."""
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
        self._work = sum([bid.left * bid.cheapest for bid in bids])
        """All the work left, in device-seconds."""
        self._whole = self._count()
        """Devices there, a slow one counted as the part of a fast one that it does of this work."""
        whole = self._whole
        self._crowd = sum([bid.weight * bid.asked for bid in bids]) / whole if whole else 1.0
        """Devices asked for over those there, by weight."""
        self.crowded = self._so_far(bids, dues)
        """Crowd-seconds of each job's life."""

    def _so_far(self, bids: Iterable[Bid], dues: Dues | None) -> dict[int, float]:
        known, since = (dues.crowded, dues.at) if dues else ({}, -inf)
        found, crowd, now = {}, self._crowd, self._now
        for bid in bids:  # hot path: of every job in every cycle, so calls count
            begin = bid.state.submitted
            begin = since if since > begin else begin
            lived = now - begin if now > begin else 0.0
            found[bid.number] = known.get(bid.number, 0.0) + crowd / bid.weight * lived
        return found

    def late(self, bids: Iterable[Bid], holds: float, fair: float) -> dict[int, float]:
        """Return the jobs that would end far too late even now, and by how many s."""
        if not fair:
            return {}
        latest = LATEST * max(1.0, 0.5 / fair)
        every = ((bid.number, self._times(bid, holds)) for bid in bids)
        beyond = ((number, life - latest * share) for number, (life, share) in every)
        return {number: seconds for number, seconds in beyond if seconds > 0.0}

    def _times(self, bid: Bid, holds: float) -> tuple[float, float]:
        """Return the s of its life if it runs from now on, and those with a fair share.

        The first `holds` s of its life are left out, as any start takes a while, and what it has had
        for less than that: else it would make way for the next as soon as it has begun.
        """
        needs, gang, state = _alone(bid), bid.asked, bid.state
        if needs == inf or not gang:
            return 0.0, INSTANT
        since, now = state.since, self._now
        begun = since is not None and now < since + holds
        had = (state.served if begun else state.attained(now)) / gang
        waited = now - state.submitted - holds
        life = waited + needs if waited > 0.0 else needs
        crowded = self.crowded[bid.number] + self._crowd / bid.weight * needs
        alone = max(INSTANT, had + needs)
        return life, alone * max(1.0, crowded / max(INSTANT, life))

    def risks(self, bids: Iterable[Bid], fair: float) -> dict[int, float]:
        """Return how many times as much each job counts, beyond once, for the chance that it would be
        late if it ran later instead of now; jobs that count once are left out."""
        if not fair or not self._whole:
            return {}
        rigid = [bid for bid in bids if not bid.job.elastic and bid.asked and bid.gang_rate > NOTHING]
        if not rigid:
            return {}
        rest = sum([bid.outlook.left * bid.cheapest for bid in self._bids]) / self._whole
        found = lateness.risks(np.array([self._risked(bid) for bid in rigid]).T, rest).tolist()
        every = zip(rigid, found, strict=True)
        return {bid.number: RISK * fair * risk for bid, risk in every if risk > 0.0}

    def _risked(self, bid: Bid) -> tuple[float, ...]:
        """Return what a job's risk follows from (see `lateness`)."""
        state, now, outlook = bid.state, self._now, bid.outlook  # hot path: of every job in a cycle
        left, lived = outlook.left / bid.gang_rate, now - state.submitted
        had, crowd = state.attained(now) / bid.asked, self._crowd / bid.weight
        crowded = self.crowded[bid.number]
        return left, bid.starts, outlook.spread, had, lived, crowded, crowd

    def critical(self, bids: Iterable[Bid], makespan: float) -> dict[int, float]:
        """Return the jobs on which the end of the last one depends, and by how many s."""
        if not makespan or not self._whole:
            return {}
        rest = (1.0 - makespan) * self._work / self._whole
        margins = {bid.number: makespan * bid.rest(self._devices) - rest for bid in bids}
        return {number: margin for number, margin in margins.items() if margin >= 0.0}

    def _count(self) -> float:
        counts = self._devices.values()
        if len(counts) < 2 or not self._work:
            return sum(counts)
        found = 0.0
        for each, count in self._devices.items():
            there = sum([bid.left * bid.cheapest_on(each) for bid in self._bids])
            found += count * self._work / there
        return found


def _alone(bid: Bid) -> float:
    """Return the s left on its gang alone, on its best type; inf: it cannot run here."""
    best = bid.gang_rate
    return bid.starts + bid.outlook.left / best if best > NOTHING else inf
