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
from functools import cached_property
from math import exp, inf

import numpy as np

from muster.policy.market.bids import NOTHING, Bid, Dues, Facts
from muster.policy.market.narrow import Kept
from muster.policy.market.prices import Array
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
    """One pool's jobs at one moment, as columns: a number for each job."""

    def __init__(
        self, bids: Sequence[Bid], devices: Mapping[str, int], dues: Dues | None, now: float
    ) -> None:
        self._bids = bids
        self._devices = devices
        self._now = now
        rows = np.array([bid.facts(devices) for bid in bids])
        self._jobs = jobs = Facts(*rows.reshape(-1, len(Facts._fields)).T)
        self._left = np.array([bid.left for bid in bids])
        # Summed up one by one, as any other order rounds otherwise.
        self._work = sum((self._left * jobs.cheapest).tolist())
        """All the work left, in device-seconds."""
        self._whole = self._count()
        """Devices there, a slow one counted as the part of a fast one that it does of this work."""
        whole = self._whole
        self._crowd = sum((jobs.weight * jobs.asked).tolist()) / whole if whole else 1.0
        """Devices asked for over those there, by weight."""
        self._crowds = self._so_far(dues)
        self.crowded = dict(zip([bid.number for bid in bids], self._crowds.tolist(), strict=True))
        """Crowd-seconds of each job's life."""

    @cached_property
    def times(self) -> Array:
        """The s that each job has left at its best, over its weight: one that waits also has its start
        before it."""
        jobs, runs = self._jobs, self._jobs.best > NOTHING
        times = (jobs.starts + self._left / np.where(runs, jobs.best, 1.0)) / jobs.weight
        return np.where(runs, times, 0.0)

    def ends_last(self) -> list[int]:
        """Return the places of the jobs, those first that end last."""
        numbers = np.array([bid.number for bid in self._bids])
        order = np.lexsort(np.array((numbers, -self._jobs.submitted, -self.times)))
        found: list[int] = order.tolist()
        return found

    def _so_far(self, dues: Dues | None) -> Array:
        known, since = (dues.crowded, dues.at) if dues else ({}, -inf)
        before = np.array([known.get(bid.number, 0.0) for bid in self._bids])
        lived = np.maximum(0.0, self._now - np.maximum(self._jobs.submitted, since))
        found: Array = before + self._crowd / self._jobs.weight * lived
        return found

    def late(self, holds: float, fair: float) -> dict[int, float]:
        """Return the jobs that would end far too late even now, and by how many s."""
        if not fair:
            return {}
        life, share, _ = self._times(holds)
        beyond = life - LATEST * max(1.0, 0.5 / fair) * share
        return self._chosen(beyond, beyond > 0.0)

    def due(self, bids: Iterable[Bid], holds: float, fair: float) -> dict[int, float]:
        """Return the jobs that are in time only if they run from now on, and those that have just begun
        and may not be stopped for longer ones, within their part of the devices; the shorter a job, the
        larger its number, below 1."""
        part = 2.0 * fair - 1.0
        if part <= 0.0:
            return {}
        late = self._due(holds)
        bids = [bid for bid in bids if not bid.job.elastic]
        if not any(bid.number in late for bid in bids):
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

    def _due(self, holds: float) -> set[int]:
        """Return the jobs that are in time only if they run from now on."""
        spreads = [bid.outlook.spread for bid in self._bids]
        life, fair, alone = self._times(holds, np.array([exp(-SURE * spread) for spread in spreads]))
        tight = (life > np.maximum(DUE * fair, alone)) & (np.array(spreads) <= VAGUE)
        return {self._bids[row].number for row in tight.nonzero()[0].tolist()}

    def _began(self, bid: Bid, within: float) -> bool:
        """Whether it got what it holds less than `within` s ago."""
        since = bid.state.since
        return bool(bid.held) and since is not None and self._now < since + within

    def _times(self, holds: float, part: Array | float = 1.0) -> tuple[Array, Array, Array]:
        """Return the s of each job's life if it runs from now on, for this part of what is believed,
        those with a fair share, and alone on its gang; of one that cannot run here nothing, an instant,
        and an instant.

        The first `holds` s of its life are left out, as any start takes a while, and what it has had
        for less than that: else it would make way for the next as soon as it has begun.
        """
        jobs, now = self._jobs, self._now
        left = np.array([bid.outlook.left for bid in self._bids])
        runs = (jobs.gang_rate > NOTHING) & (jobs.asked > 0.0)
        needs = part * (jobs.starts + left / np.where(runs, jobs.gang_rate, inf))
        runs &= needs < inf
        attained = jobs.served + jobs.holding * np.maximum(0.0, now - jobs.since)
        had = np.where(now < jobs.since + holds, jobs.served, attained) / np.maximum(1.0, jobs.asked)
        waited = now - jobs.submitted - holds
        life = np.where(waited > 0.0, waited + needs, needs)
        crowded = self._crowds + self._crowd / jobs.weight * needs
        alone = np.maximum(INSTANT, had + needs)
        fair = alone * np.maximum(1.0, crowded / np.maximum(INSTANT, life))
        return np.where(runs, life, 0.0), np.where(runs, fair, INSTANT), np.where(runs, alone, INSTANT)

    def critical(self, makespan: float) -> dict[int, float]:
        """Return the jobs on which the end of the last one depends, and by how many s."""
        if not makespan or not self._whole:
            return {}
        rest = (1.0 - makespan) * self._work / self._whole
        margins = makespan * (self.times * self._jobs.weight) - rest
        return self._chosen(margins, margins >= 0.0)

    def _chosen(self, seconds: Array, which: Kept) -> dict[int, float]:
        """Return these jobs and their seconds."""
        rows = which.nonzero()[0].tolist()
        return {self._bids[row].number: float(seconds[row]) for row in rows}

    def _count(self) -> float:
        counts = self._devices.values()
        if len(counts) < 2 or not self._work:
            return sum(counts)
        found = 0.0
        for each, count in self._devices.items():
            there = sum([bid.left * bid.cheapest_on(each) for bid in self._bids])
            found += count * self._work / there
        return found


def _size(bid: Bid) -> float:
    """Return the device-seconds left; of one that runs, as many as others must have to be shorter."""
    return bid.left * bid.cheapest / (firmness(bid.outlook.spread) if bid.held else 1.0)
