"""The offers of many jobs at once: `Bid.offer` for each, worked out as whole arrays.

A curve has a few dozen counts at most, for which a call of NumPy costs more than the arithmetic: the
curves of all jobs are put end to end, and every step of the formula is taken once.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from muster.policy.market.bids import Bid
from muster.policy.market.deal import Offer

MANY = 160
"""Counts of all jobs together from which arrays are faster than loops."""


def offers_of(
    bids: Sequence[Bid], device_type: str, horizon: float, now: float, *, wanted: bool
) -> list[Offer]:
    """Return what each number of devices of the type is worth to each job (see `Bid.offer`)."""
    counts = [len(bid.curves[device_type].workers) for bid in bids]
    if sum(counts) < MANY:
        return [bid.offer(device_type, horizon, now, wanted=wanted) for bid in bids]
    rates, slowness, more = np.concatenate([bid.columns(device_type) for bid in bids], axis=1)
    terms = np.array([bid.terms(device_type, horizon, now) for bid in bids]).T
    pause, left, price, unpaid, stays, joining = np.repeat(terms, counts, axis=1)
    work = left * slowness
    worth = price * rates * (1.0 - np.minimum(1.0, (pause + unpaid) / np.minimum(pause + work, stays)))
    worth *= 1.0 - more * np.minimum(1.0, joining / np.minimum(stays, work + joining * more))
    values = worth.tolist()
    ends = pairwise(accumulate(counts, initial=0))
    return [
        bid.offered(device_type, values[begin:end], now, wanted=wanted)
        for bid, (begin, end) in zip(bids, ends, strict=True)
    ]
