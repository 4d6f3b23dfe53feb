"""Prices of a unit of each job's work under which greedy dealing is optimal.

Source: Berg, Vesilo, Harchol-Balter, "heSRPT: parallel scheduling to minimize mean slowdown" (2020),
and Pontryagin's principle, which takes its result to jobs with any speed-ups. Let jobs be present with
weights w_j (1 each: total completion time) and speeds s_j(k) on k of n devices, and none arrive. The
sum of weighted completion times is least if at any moment the devices go where the sum of c_j s_j(k_j)
is largest, c_j being what that sum of times gains by a unit less of job j's work. These prices are
constant while the job lives, and on the optimal path the work of a second is worth what a second of
waiting costs,

    G_i := max { sum_{j <= i} c_j s_j(k_j) : sum_{j <= i} k_j <= n } = w_1 + ... + w_i,

whenever only the i jobs that end last are left. So, the last to end first, each price follows from the
previous ones, G_{i-1}(m) being the same sum on m devices:

    c_i = min over k of (w_1 + ... + w_i - G_{i-1}(n - k)) / s_i(k)          [s per unit of work].

With s_j(k) = k^p for all and equal weights this is heSRPT's c_i ~ (i^q - (i-1)^q)^(1/q), q = 1/(1-p),
and its shares. Jobs are ordered by the time each needs at its best. Speeds that are not concave are
replaced by their concave hull. With several device types a job is priced on the one where its price is
lowest: there a unit of its work delays the others least.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import inf

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def hull(counts: Sequence[int], values: Sequence[float]) -> list[int]:
    """Return the corners of the least concave, rising function above these points, from the first."""
    corners = [0]
    for i in range(1, len(counts)):
        if values[i] <= values[corners[-1]]:
            continue
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            rise, run = values[b] - values[a], counts[b] - counts[a]
            if rise * (counts[i] - counts[b]) > (values[i] - values[b]) * run:
                break
            corners.pop()
        corners.append(i)
    return corners


def gains(devices: Sequence[int], speeds: Sequence[float]) -> Array:
    """Return what each further device adds to a job's speed, on the concave hull."""
    counts, values = (0, *devices), (0.0, *speeds)
    corners = hull(counts, values)
    steps = [counts[b] - counts[a] for a, b in pairwise(corners)]
    slopes = [
        (values[b] - values[a]) / step for (a, b), step in zip(pairwise(corners), steps, strict=True)
    ]
    return np.repeat(np.array(slopes, dtype=float), steps)


class Market:
    """Devices by type, and jobs that enter one by one, the last to end first."""

    def __init__(self, devices: Mapping[str, int]) -> None:
        self._owed = 0.0
        """What a second of waiting costs: the sum of the weights."""
        self._gains = {each: np.zeros(count) for each, count in devices.items()}
        """What each device adds at its best use, falling."""
        self._worth = {each: np.zeros(count + 1) for each, count in devices.items()}
        """Its cumulative sum, G: the most that each number of devices adds."""

    def enter(self, ladders: Mapping[str, Array], weight: float = 1.0) -> tuple[float, str]:
        """Return a job's price and type, given what each device of a type adds to its speed."""
        self._owed += weight
        all_else = sum(float(worth[-1]) for worth in self._worth.values())
        price, best = inf, ""
        for device_type, ladder in ladders.items():
            worth = self._worth.get(device_type)
            most = 0 if worth is None else min(len(ladder), len(worth) - 1)
            if worth is None or not most:
                continue
            missed = worth[-1] - worth[-1 - most : -1][::-1]
            asked = float(((self._owed - all_else + missed) / np.cumsum(ladder[:most])).min())
            if asked < price:
                price, best = asked, device_type
        if price == inf:  # it cannot run here and delays nobody
            self._owed -= weight
            return 0.0, ""
        self._put(best, price * ladders[best])
        return price, best

    def _put(self, device_type: str, more: Array) -> None:
        old = self._gains[device_type]
        merged = np.concatenate((old, more))
        merged.sort(kind="stable")  # two sorted runs: just a merge
        self._gains[device_type] = new = merged[: -len(old) - 1 : -1]
        np.cumsum(new, out=self._worth[device_type][1:])


def sizes(least: int, most: int) -> tuple[int, ...]:
    """Return the numbers of workers to consider: all up to 16, then in steps of about an eighth."""
    found, count = [], max(1, least)
    while count <= most:
        found.append(count)
        step = 1 << max(0, count.bit_length() - 4)
        count += step - count % step
    if found and found[-1] != most:
        found.append(most)
    return tuple(found)


def upto(counts: Sequence[int], bound: int) -> int:
    """Count the rising counts within the bound."""
    return bisect_right(counts, bound)
