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

With `fair` above 1/2 jobs are also kept from being late. From rho = `DUE` on a job is in time only if
it runs from now on (if it has waited at all: without a crowd nobody else is late), and is served before
those that have time. Of several the shortest goes first, since as few as possible shall be late (Moore
1968): the latest first would make each of them late in turn. They get the part 2 `fair` - 1 of the
devices, what began within `KEEP` x `holds` counted in, so that short jobs still pass. A length is only
believed: a job may be `SURE` standard deviations shorter, and is late all the sooner then; one of which
nothing is known is never due. Nor is an elastic one: it shrinks before it waits, and what it would take
alone on its gang is not what it asks for. Where lengths are known, that makes fewer late; where they
are believed, it costs a twentieth of the mean and makes as many late as before, so it is not the
default (`benchmarks/sim_fair.py`).

In time. All the work left takes at least W / n s, and a job at least the r s that it has left at its
best. Where r is more, that job alone decides when the last one ends. With the part m (`makespan`) of
the weight on that end, a job is served whatever its price once

    m r >= (1 - m) W / n:

never for m = 0, just in time for 1/2, longest first for 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import exp, inf

from muster.policy.market.bids import NOTHING, Bid, Dues
from muster.policy.market.uncertainty import firmness

DUE = 0.8
"""Finish-time ratio from which on a job may be served before those that have time."""
SURE = 1.0
"""Standard deviations by which it may be shorter than believed."""
VAGUE = 0.6
"""Standard deviation of the logarithm of a length beyond which it says nothing about being late."""
KEEP = 3.0
"""Starts that a job which is due does not undo, in horizons."""
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
        beyond = ((number, life - latest * share) for number, (life, share, _) in every)
        return {number: seconds for number, seconds in beyond if seconds > 0.0}

    def due(self, bids: Iterable[Bid], holds: float, fair: float) -> dict[int, float]:
        """Return the jobs that are in time only if they run from now on, and those that have just begun
        and may not be stopped for longer ones, within their part of the devices; the shorter a job, the
        larger its number, below 1."""
        part = 2.0 * fair - 1.0
        if part <= 0.0:
            return {}
        bids = [bid for bid in bids if not bid.job.elastic]
        late = {bid.number for bid in bids if self._is_due(bid, holds)}
        if not late:
            return {}
        kept = (bid for bid in bids if bid.number in late or self._began(bid, KEEP * holds))
        whole = room = part * sum(self._devices.values())
        found = {}
        for size, _, bid in sorted((_size(bid), bid.number, bid) for bid in kept):
            takes = min(whole, bid.asked)  # a gang that is wider than the part may have it all
            if bid.held or takes <= room:
                room -= takes
                found[bid.number] = 1.0 / (1.0 + size)
        return found

    def _is_due(self, bid: Bid, holds: float) -> bool:
        spread = bid.outlook.spread
        if spread > VAGUE:
            return False
        life, fair, alone = self._times(bid, holds, exp(-SURE * spread))
        return life > max(DUE * fair, alone)

    def _began(self, bid: Bid, within: float) -> bool:
        """Whether it got what it holds less than `within` s ago."""
        since = bid.state.since
        return bool(bid.held) and since is not None and self._now < since + within

    def _times(self, bid: Bid, holds: float, part: float = 1.0) -> tuple[float, float, float]:
        """Return the s of its life if it runs from now on, for this part of what is believed, those
        with a fair share, and alone.

        The first `holds` s of its life are left out, as any start takes a while, and what it has had
        for less than that: else it would make way for the next as soon as it has begun.
        """
        needs, gang, state = part * _alone(bid), bid.asked, bid.state
        if needs == inf or not gang:
            return 0.0, INSTANT, INSTANT
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


def _size(bid: Bid) -> float:
    """Return the device-seconds left; of one that runs, as many as others must have to be shorter."""
    return bid.left * bid.cheapest / (firmness(bid.outlook.spread) if bid.held else 1.0)
