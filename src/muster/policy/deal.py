"""Deal devices for the largest total value: many jobs, each with some counts to choose from.

A knapsack with one choice per job. Devices go first where each adds most (the concave hulls of all
jobs, steepest first), which is optimal but for the few left over; then the jobs nearest to another
choice, or all if few, are solved exactly by dynamic programming over devices:
best(n) = max over a job's counts k of best'(n - k) + value(k).
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf

import numpy as np
import numpy.typing as npt

from muster.policy.prices import Array, hull

Whole = npt.NDArray[np.int64]

CORE_JOBS = 64
"""Jobs solved exactly; the cost is this times their counts times `CORE_DEVICES`."""
CORE_DEVICES = 256


@dataclass(frozen=True, slots=True)
class Offer:
    """Counts of devices a job could use, rising from 0, and their values; 0 is worth 0."""

    counts: tuple[int, ...]
    values: tuple[float, ...]


def deal(offers: Sequence[Offer], devices: int) -> list[int]:
    """Return the index of the count each offer gets; the sum is at most `devices`."""
    if len(offers) <= CORE_JOBS and devices <= CORE_DEVICES:
        return _exact(offers, devices)
    chosen, left, doubt = _by_slope(offers, devices)
    core: list[int] = []
    for i in sorted(range(len(offers)), key=lambda i: doubt[i]):
        held = offers[i].counts[chosen[i]]
        if len(core) == CORE_JOBS or left + held > CORE_DEVICES:
            break
        core.append(i)
        left += held
    for i, place in zip(core, _exact([offers[i] for i in core], left), strict=True):
        chosen[i] = place
    return chosen


def _by_slope(offers: Sequence[Offer], devices: int) -> tuple[list[int], int, list[float]]:
    """Return choices, devices left over, and each job's distance to another choice."""
    corners = [hull(offer.counts, offer.values) for offer in offers]
    slopes = [_slopes(offer, found) for offer, found in zip(offers, corners, strict=True)]
    queue = [(-steep[0], i, 0) for i, steep in enumerate(slopes) if steep]
    heapq.heapify(queue)
    chosen, left, margin = [0] * len(offers), devices, 0.0
    while queue and left:
        slope, i, at = heapq.heappop(queue)
        counts, goal = offers[i].counts, corners[i][at + 1]
        if counts[goal] - counts[chosen[i]] > left:
            margin = margin or -slope
            continue
        left -= counts[goal] - counts[chosen[i]]
        chosen[i] = goal
        if at + 1 < len(slopes[i]):
            heapq.heappush(queue, (-slopes[i][at + 1], i, at + 1))
    margin = margin or (-queue[0][0] if queue else 0.0)
    doubt = [min((abs(slope - margin) for slope in steep), default=inf) for steep in slopes]
    return chosen, left, doubt


def _slopes(offer: Offer, corners: Sequence[int]) -> list[float]:
    counts, values = offer.counts, offer.values
    return [(values[b] - values[a]) / (counts[b] - counts[a]) for a, b in pairwise(corners)]


def _exact(offers: Sequence[Offer], devices: int) -> list[int]:
    """Solve exactly; ties: fewest devices for the last jobs."""
    best = np.zeros(devices + 1)
    numbers = np.arange(devices + 1)
    tables: list[tuple[list[int], list[int], Whole | None]] = []
    for offer in offers:
        counts, places = _useful(offer, devices)
        if len(counts) > 1:
            values = np.array([offer.values[place] for place in places])
            best, picked = _one(best, numbers, np.array(counts), values)
            tables.append((counts, places, picked))
        else:
            tables.append((counts, places, None))
    chosen, left = [], int(best.argmax())
    for counts, places, table in reversed(tables):
        at = 0 if table is None else int(table[left])
        chosen.append(places[at])
        left -= counts[at]
    return chosen[::-1]


def _one(best: Array, numbers: Whole, counts: Whole, values: Array) -> tuple[Array, Whole]:
    """Return the best value of each number of devices with one more job, and its choice."""
    most = int(counts[-1])
    padded = np.concatenate((np.full(most, -inf), best))
    brought = padded[(numbers + most) - counts[:, None]] + values[:, None]
    picked = brought.argmax(axis=0)
    return brought[picked, numbers], picked


def _useful(offer: Offer, devices: int) -> tuple[list[int], list[int]]:
    """Return counts worth more than all smaller ones, and their indices."""
    counts, places, most = [0], [0], 0.0
    for i, (count, value) in enumerate(zip(offer.counts, offer.values, strict=True)):
        if count > devices:
            break
        if value > most:
            counts.append(count)
            places.append(i)
            most = value
    return counts, places
