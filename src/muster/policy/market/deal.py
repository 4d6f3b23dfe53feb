"""Deal devices for the largest total value: many jobs, each with some counts to choose from.

A knapsack with one choice per job. Devices go first where each adds most (the concave hulls of all
jobs, steepest first), which is optimal but for the few left over; then the jobs nearest to another
choice, or all if few, are solved exactly by dynamic programming over devices:
best(n) = max over a job's counts k of best'(n - k) + value(k).
"""

import heapq
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from muster.policy.market.narrow import narrow
from muster.policy.market.prices import Array, hull

Whole = npt.NDArray[np.int64]

CORE_JOBS = 64
"""Jobs solved exactly; the cost is this times their counts times `CORE_DEVICES`."""
CORE_DEVICES = 256
SIMPLE = 4
"""Jobs that are solved faster than narrowed down."""


class Offer(NamedTuple):
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
    doubt = [min([abs(slope - margin) for slope in steep], default=inf) for steep in slopes]
    return chosen, left, doubt


def _slopes(offer: Offer, corners: Sequence[int]) -> list[float]:
    counts, values = offer.counts, offer.values
    if len(corners) == 2:  # most jobs are of one size
        return [(values[corners[1]] - values[0]) / (counts[corners[1]] - counts[0])]
    return [(values[b] - values[a]) / (counts[b] - counts[a]) for a, b in pairwise(corners)]


def _exact(offers: Sequence[Offer], devices: int) -> list[int]:
    """Solve exactly; ties: fewest devices for the last jobs."""
    places = _promising(offers, devices)
    for offer, kept in zip(offers, places, strict=True):
        devices -= offer.counts[kept[0]] if len(kept) == 1 else 0
    best = np.zeros(devices + 1)
    numbers = np.arange(devices + 1)
    tables: list[Whole | None] = []
    for offer, kept in zip(offers, places, strict=True):
        if len(kept) == 1:
            tables.append(None)
            continue
        counts = np.array([offer.counts[place] for place in kept])
        best, picked = _one(best, numbers, counts, np.array([offer.values[place] for place in kept]))
        tables.append(picked)
    chosen, left = [], int(best.argmax())
    for offer, kept, table in zip(reversed(offers), reversed(places), reversed(tables), strict=True):
        if table is None:
            chosen.append(kept[0])
            continue
        chosen.append(kept[int(table[left])])
        left -= offer.counts[chosen[-1]]
    return chosen[::-1]


def _promising(offers: Sequence[Offer], devices: int) -> list[list[int]]:
    """Return the indices of the counts that each offer may get in a best deal."""
    places = [_useful(offer, devices) for offer in offers]
    unsure = [i for i, each in enumerate(places) if len(each) > 1]
    if len(unsure) <= SIMPLE:
        return places
    counts = [[offers[i].counts[place] for place in places[i]] for i in unsure]
    values = [[offers[i].values[place] for place in places[i]] for i in unsure]
    for i, mask in zip(unsure, narrow(counts, values, devices).tolist(), strict=True):
        places[i] = [place for place, kept in zip(places[i], mask, strict=False) if kept]
    return places


def _one(best: Array, numbers: Whole, counts: Whole, values: Array) -> tuple[Array, Whole]:
    """Return the best value of each number of devices with one more job, and its choice."""
    most = int(counts[-1])
    padded = np.concatenate((np.full(most, -inf), best))
    brought = padded[(numbers + most) - counts[:, None]] + values[:, None]
    picked = brought.argmax(axis=0)
    return brought[picked, numbers], picked


def _useful(offer: Offer, devices: int) -> list[int]:
    """Return the indices of the counts that are worth more than all smaller ones."""
    if len(offer.counts) == 2:  # of one size
        return [0, 1] if offer.counts[1] <= devices and offer.values[1] > 0.0 else [0]
    places, most = [0], 0.0
    for i, (count, value) in enumerate(zip(offer.counts, offer.values, strict=True)):
        if count > devices:
            break
        if value > most:
            places.append(i)
            most = value
    return places
