"""Lower bounds on the mean completion time that no policy can beat.

They hold for any schedule with any pauses, provided that the records are true: job j is released at
r_j, takes at least h_j = `best` s and at least v_j = `least` device-seconds, and there are never more
than C devices. Devices may be divided and handed over at no cost, which only lowers the bounds. So
`best` and `least` must come from the true speeds on the best devices; learnt speeds give no bound.

The mixed bound assumes more: that a share of a job takes at least that share of h_j and of v_j. That
holds for one pace on one set of devices, and not quite where gradient noise changes the pace or `best`
contains a pause: then trust the other two.
"""

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from muster.sim.report.curve import Floats
from muster.sim.result import Fate, Result

_NEEDED = ("submitted", "best", "least")

ROUNDS = 8
"""Rounds of improving the mixed bound: each gives a bound, and the gain soon vanishes."""


@dataclass(frozen=True, slots=True)
class CompletionBounds:
    """Lower bounds on the mean completion time in s."""

    alone: float
    """Every job by itself: the mean of h_j."""
    machine: float
    """The cluster as one machine."""
    mixed: float
    """Both at once."""

    @property
    def best(self) -> float:
        """The largest. Only of means: the larger of two bounds of one job is no bound."""
        return max(self.alone, self.machine, self.mixed)


def bounds(result: Result) -> CompletionBounds | None:
    """Return the bounds for the completed jobs; the others can only have delayed them."""
    devices = max((s.capacity for s in result.samples), default=0)
    jobs = [r for r in result.records if r.fate is Fate.DONE]
    release, best, least = (np.array([getattr(r, name) for r in jobs]) for name in _NEEDED)
    return bounds_of(release, best, least, devices) if jobs and devices else None


def bounds_of(release: Floats, best: Floats, least: Floats, devices: int) -> CompletionBounds:
    """Return the bounds for jobs on `devices`, the most there ever were."""
    size = least / devices
    return CompletionBounds(float(best.mean()), machine(release, size), mixed(release, best, size))


def machine(release: Floats, size: Floats) -> float:
    """Return the mean completion time in s under SRPT on one machine, sizes v_j / C in s.

    Proof. Take any schedule on the cluster. Let the machine give j at each moment the share of its time
    v_j x progress / C. At most C devices are held and progress da costs at least v_j da device-seconds,
    so the shares never exceed 1; each job ends on the machine when it ends on the cluster. A machine
    that shares its time can be replaced by one that does one job at a time and ends none later, and
    among those SRPT always has the fewest jobs left (Schrage, Operations Research 16, 1968), hence the
    least mean.
    """
    ended = release.copy()
    for job, _, end in _served(release, size, None):
        ended[job] = end
    return float((ended - release).mean())


def mixed(release: Floats, best: Floats, size: Floats) -> float:
    """Return the mean of max(h_j, M_j - r_j + h_j / 2), minimised over all sharings of one machine.

    M_j is the mean moment of j's progress: the integral of t da_j(t), in s.

    Proof. j progresses by at most 1 / h_j each s, so at least half of h_j lies between its mean moment
    and its end: C_j >= M_j + h_j / 2. And C_j >= r_j + h_j. Hence for any weights w_j in [0, 1]

        sum C_j >= sum (1 - w_j) (r_j + h_j) + w_j (M_j + h_j / 2).

    The M_j are those of the machine above. The least sum of w_j M_j is reached by doing first, of the
    released jobs, the one with the largest w_j / size (Goemans' LP schedule, SODA 1997: work of j done
    at t costs t w_j / size_j, and swapping two bits of work into that order never costs more). This
    holds for every w, so the largest found counts; it is concave in w with slope M_j - r_j - h_j / 2:
    the weights of jobs that wait long are raised, the others lowered.
    """
    weight = (size > 0).astype(float)
    found = 0.0
    for turn in range(ROUNDS):
        middle = _middles(release, size, weight) - release
        gain = np.where(size > 0, middle - best / 2, 0.0)
        found = max(found, float((best + weight * gain).mean()))
        scale = np.maximum(middle, best / 2)
        step = np.divide(gain, scale, out=np.zeros_like(gain), where=scale > 0) / (turn + 1)
        weight = np.clip(weight + step, 0.0, 1.0)
    return found


def _middles(release: Floats, size: Floats, weight: Floats) -> Floats:
    """Return the mean moment of each weighted job, largest weight / size first; else its release."""
    chosen: NDArray[np.intp] = np.flatnonzero(weight)
    if not len(chosen):
        return release
    pieces = np.array(list(_served(release[chosen], size[chosen], size[chosen] / weight[chosen])))
    job, begin, end = pieces[:, 0].astype(int), pieces[:, 1], pieces[:, 2]
    moments = np.bincount(job, weights=(end - begin) * (begin + end) / 2, minlength=len(chosen))
    middle = release.copy()
    middle[chosen] = moments / size[chosen]
    return middle


def _served(release: Floats, size: Floats, rank: Floats | None) -> Iterator[tuple[int, float, float]]:
    """Yield who has the machine from when to when: the lowest rank, else the least work left."""
    order = np.argsort(release, kind="stable").tolist()
    left = size.tolist()
    ranks = left.copy() if rank is None else rank.tolist()
    heap: list[tuple[float, int]] = []
    now = -inf
    for arrival, job in zip([*release[order].tolist(), inf], [*order, -1], strict=True):
        while heap and now < arrival:
            first = heap[0][1]
            end = min(now + left[first], arrival)
            yield first, now, end
            left[first] -= end - now
            now = end
            if end < arrival or left[first] <= 0:
                heapq.heappop(heap)
            elif rank is None:
                heapq.heapreplace(heap, (left[first], first))
        now = max(now, arrival)
        if job >= 0:
            heapq.heappush(heap, (ranks[job], job))
