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
from functools import lru_cache
from itertools import pairwise
from math import inf

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def hull(counts: Sequence[int], values: Sequence[float]) -> list[int]:
    """Return the corners of the least concave, rising function above these points, from the first."""
    if len(counts) == 2:  # most jobs are of one size
        return [0, 1] if values[1] > values[0] else [0]
    corners, steps = [0], list[tuple[float, int]]()
    value, count = values[0], counts[0]
    for i in range(1, len(counts)):
        rise, run = values[i] - value, counts[i] - count
        if rise <= 0.0:
            continue
        while steps and steps[-1][0] * run <= rise * steps[-1][1]:  # it would not be concave
            steps.pop()
            corners.pop()
            rise, run = values[i] - values[corners[-1]], counts[i] - counts[corners[-1]]
        steps.append((rise, run))
        corners.append(i)
        value, count = values[i], counts[i]
    return corners


def gains(devices: Sequence[int], speeds: Sequence[float]) -> Array:
    """Return what each further device adds to a job's speed, on the concave hull."""
    counts, values = (0, *devices), (0.0, *speeds)
    found: list[float] = []
    for a, b in pairwise(hull(counts, values)):
        step = counts[b] - counts[a]
        if step == 1:
            found.append(values[b] - values[a])
        else:
            found += [(values[b] - values[a]) / step] * step
    return np.array(found, dtype=float)


class Market:
    """Devices by type, and jobs that enter one by one, the last to end first."""

    def __init__(self, devices: Mapping[str, int]) -> None:
        self._gains = {each: np.zeros(count) for each, count in devices.items()}
        """What each device adds at its best use, rising; an array is replaced, never changed."""

    def copy(self) -> "Market":
        """Return a market that others may enter."""
        found = Market({})
        found._gains = dict(self._gains)
        return found

    def enter(self, ladders: Mapping[str, Array], weight: float = 1.0) -> tuple[float, str]:
        """Return a job's price and type, given what each device of a type adds to its speed."""
        price, best = inf, ""
        for device_type, ladder in ladders.items():
            served = self._gains.get(device_type)
            most = 0 if served is None else min(len(ladder), len(served))
            if served is None or not most:
                continue
            # w_1 + ... + w_i - G_{i-1}(n - k): G_{i-1}(n) is the sum of the weights before, by which
            # prices are chosen, and k devices less cost the k smallest gains.
            missed = served[:most].cumsum()
            asked = float(np.minimum.reduce((weight + missed) / ladder[:most].cumsum()))
            if asked < price:
                price, best = asked, device_type
        if price == inf:  # it cannot run here and delays nobody
            return 0.0, ""
        self._put(best, price * ladders[best])
        return price, best

    def _put(self, device_type: str, more: Array) -> None:
        old = self._gains[device_type]
        merged = np.concatenate((old, more[::-1]))
        merged.sort(kind="stable")  # two rising runs: just a merge
        self._gains[device_type] = merged[len(more) :]


@lru_cache(maxsize=1024)
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
