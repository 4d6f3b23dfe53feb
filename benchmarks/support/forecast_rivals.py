"""Ways to forecast that ours is compared with. Each returns three moments: 0.1, 0.5 and 0.9."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import exp, inf
from random import Random
from statistics import NormalDist

from muster.foresight.past import Past, gang_rate
from muster.foresight.quantiles import TimeInterval, interval
from muster.model.view import JobState, View
from muster.perf.learnt.lengths import DECLARED
from muster.sim.recorder import ideals
from muster.sim.truth import Arrival

ENOUGH = 5
"""Ended jobs of a size and pool that its quantiles are read from."""
LIMITS = (900.0, 3600.0, 4 * 3600.0, 12 * 3600.0, 86_400.0, 3 * 86_400.0, 7 * 86_400.0, 30 * 86_400.0)
"""What users ask for: the next of these above twice what they expect, as they do on Slurm, where a job
that exceeds its limit is killed."""
_UNIT = NormalDist().inv_cdf(0.9)


def today(view: View, now: float, past: Past) -> dict[int, TimeInterval]:
    """The forecast before there was a play: everybody keeps what it has, and who waits starts now.

    What users' jobs take of their durations was not learnt then: they were right to a factor of two."""
    found = {}
    types = view.cluster.device_types()
    for number, state in view.jobs.items():
        known = view.outlooks[number]
        rate = known.here or gang_rate(state.job, known, state.job.device_types or types)
        left, spread = known.left / (rate or 1.0), known.spread
        ran = each.length if (each := past.of(number)) is not None else 0.0
        if state.job.duration is not None and state.job.duration > ran:
            left, spread = state.job.duration - ran, DECLARED
        factor = exp(_UNIT * spread)
        found[number] = TimeInterval(now + left, now + left / factor, now + left * factor)
    return found


@dataclass(slots=True)
class History:
    """Quantiles of how long jobs of a size and pool took from submission to end."""

    took: dict[tuple[str, int] | None, list[float]] = field(default_factory=dict)

    def note(self, state: JobState, ended: float) -> None:
        """Take in a job that has ended."""
        for key in (None, (state.job.pool, state.job.workers.gang)):
            self.took.setdefault(key, []).append(ended - state.submitted)

    def forecast(self, view: View, now: float) -> dict[int, TimeInterval]:
        """Those that took longer than the job so far; of a job that too few did, it says nothing."""
        found = {number: self._one(state, now) for number, state in view.jobs.items()}
        return {number: said for number, said in found.items() if said is not None}

    def _one(self, state: JobState, now: float) -> TimeInterval | None:
        passed = now - state.submitted
        for key in ((state.job.pool, state.job.workers.gang), None):
            longer = [each for each in self.took.get(key, ()) if each > passed]
            if len(longer) >= ENOUGH:
                found = interval(longer)
                return TimeInterval(
                    *(state.submitted + each for each in (found.middle, found.low, found.high))
                )
        return None


def limits(arrivals: Iterable[Arrival], types: Sequence[str]) -> dict[int, float]:
    """The s that users would ask Slurm for; known to its forecast only."""
    found = {}
    for each in arrivals:
        assert each.truth is not None
        alone = ideals(each.job, each.truth, tuple(types))[0]
        guess = 2 * alone * Random(f"limit/{each.job.name}").lognormvariate(0.0, 0.5)
        found[each.job.number] = next(
            (limit for limit in LIMITS if limit >= max(guess, alone)), 2 * alone
        )
    return found


def slurm(view: View, now: float, past: Past, asked: Mapping[int, float]) -> dict[int, TimeInterval]:
    """Reservations in the order of submission, by what users asked for."""
    free = sum(view.cluster.devices_by_type().values())
    ends: list[tuple[float, int]] = []
    found: dict[int, float] = {}
    for number, state in view.jobs.items():
        if state.placement is not None:
            known = past.of(number)
            left = max(asked[number] - (known.length if known else 0.0), 1.0)
            free -= state.placement.devices
            found[number] = now + left
            heappush(ends, (now + left, state.placement.devices))
    at = now
    for state in sorted(view.jobs.values(), key=lambda each: each.submitted):
        if state.placement is not None:
            continue
        need = state.job.workers.gang * state.job.workers.need.devices
        while free < need and ends:
            at, devices = heappop(ends)
            free += devices
        free -= need
        found[state.number] = at + asked[state.number]
        heappush(ends, (found[state.number], need))
    return {number: TimeInterval(each, each, each) for number, each in found.items() if each < inf}
