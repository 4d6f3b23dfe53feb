"""The offers of many jobs at once: `Bid.offer` for each, worked out as whole arrays.

A curve has a few dozen counts at most, for which a call of NumPy costs more than the arithmetic: the
curves of all jobs are put end to end, and every step of the formula is taken once.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

import numpy as np

from muster.policy.market.bids import Bid
from muster.policy.market.deal import Offer


def offers_of(
    bids: Sequence[Bid], device_type: str, horizon: float, now: float, *, wanted: bool
) -> list[Offer]:
    """Return what each number of devices of the type is worth to each job (see `Bid.offer`)."""
    if not bids:
        return []
    speeds = [bid.had(device_type) for bid in bids]
    counts = [len(rates) for rates, _ in speeds]
    rates, slowness = (np.concatenate(each) for each in zip(*speeds, strict=True))
    terms = np.array([bid.terms(device_type, horizon, now) for bid in bids])
    pause, left, price, unpaid, stays = np.repeat(terms, counts, axis=0).T
    lasts = np.minimum(pause + left * slowness, stays)
    worth = (price * rates * (1.0 - np.minimum(1.0, (pause + unpaid) / lasts))).tolist()
    ends = pairwise(accumulate(counts, initial=0))
    return [
        bid.offered(device_type, worth[begin:end], horizon, now, wanted=wanted)
        for bid, (begin, end) in zip(bids, ends, strict=True)
    ]
