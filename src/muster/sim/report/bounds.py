"""What no policy can beat: lower bounds on the mean completion time.

They hold for any schedule, of any policy, with any pauses, provided that what the records say is true:
job j is released at r_j, takes at least h_j = `best` s whatever it is given, and costs at least v_j =
`least` device-seconds however it is run. There are never more than C devices. Devices may be cut into
any parts and handed over at no cost, which only lowers the bounds. So `best` and `least` must be of the
true speeds, each on the devices that suit it best; learnt speeds give no bound.

The mixed bound asks for more: that doing a share of a job takes that share of h_j and of v_j at least.
It is so where a job goes at one pace on one set of devices, and not quite where the gradient's noise
changes its pace, or where `best` holds a pause: then trust the other two.
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
"""How often the mixed bound is improved: it is a bound each time, and soon grows hardly any more."""


@dataclass(frozen=True, slots=True)
class CompletionBounds:
    """Lower bounds on the mean completion time in s."""

    alone: float
    """Every job by itself."""
    machine: float
    """The cluster as one machine."""
    mixed: float
    """Both at once."""

    @property
    def best(self) -> float:
        """The largest. Only means may be compared so: the larger of two bounds of each job is none."""
        return max(self.alone, self.machine, self.mixed)


def bounds(result: Result) -> CompletionBounds | None:
    """The bounds for the jobs that are done, which those that are not can only have delayed."""
    devices = max((s.capacity for s in result.samples), default=0)
    jobs = [r for r in result.records if r.fate is Fate.DONE]
    release, best, least = (np.array([getattr(r, name) for r in jobs]) for name in _NEEDED)
    return bounds_of(release, best, least, devices) if jobs and devices else None


def bounds_of(release: Floats, best: Floats, least: Floats, devices: int) -> CompletionBounds:
    """The bounds for some jobs on so many devices, the most there ever were."""
    size = least / devices
    return CompletionBounds(alone(best), machine(release, size), mixed(release, best, size))


def alone(best: Floats) -> float:
    """Mean of h_j: no job takes less than on the best it could be given."""
    return float(best.mean())


def machine(release: Floats, size: Floats) -> float:
    """Mean completion time in s under SRPT on one machine, sizes v_j / C in s.

    Proof. Take any schedule on the cluster. Let the machine work on j at each moment with the share of
    its time that j's progress is worth, v_j x progress / C. At most C devices are held and progress da
    costs v_j da device-seconds at least, so the shares never exceed 1; each job is done on the machine
    when it is done on the cluster. A machine that shares its time can be replaced by one that does one
    job at a time and ends none later, and among those SRPT has at every moment the fewest jobs left
    (Schrage, Operations Research 16, 1968), hence the least mean.
    """
    ended = release.copy()
    for job, _, end in _served(release, size, None):
        ended[job] = end
    return float((ended - release).mean())


def mixed(release: Floats, best: Floats, size: Floats) -> float:
    """Mean of max(h_j, M_j - r_j + h_j / 2), as small as any sharing of one machine can make it.

    M_j is the mean moment at which j progresses, of its progress: the integral of t da_j(t), in s.

    Proof. j progresses by no more than 1 / h_j each s. So at least half of h_j lies between its mean
    moment and its end: C_j >= M_j + h_j / 2, as for one that runs at full pace at the very end. And C_j
    >= r_j + h_j. Hence for weights w_j in [0, 1] of our choice

        sum C_j >= sum (1 - w_j) (r_j + h_j) + w_j (M_j + h_j / 2).

    The M_j are those of the machine above. The least sum of w_j M_j on it is had by doing first, of the
    jobs released, the one with the largest w_j / size (Goemans' LP schedule, SODA 1997: work of j done
    at t costs t w_j / size_j, and swapping two bits of work into that order never costs more). This
    holds for every w, so the largest found counts; it is concave in w with slope M_j - r_j - h_j / 2:
    jobs that wait long have their weight raised, the others lowered.
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
    """The mean moment of each job of some weight, the largest weight / size first; else its release."""
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
    """Who has the machine, from when until when: the lowest rank; without ranks the least work left."""
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
