"""The offers of many jobs at once: `Bid.offer` for each, worked out as whole arrays.

A curve has a few dozen counts at most, for which a call of NumPy costs more than the arithmetic: the
curves of all jobs are put end to end, and every step of the formula is taken once.
"""

from collections.abc import Sequence
from itertools import accumulate
from math import inf

import numpy as np

from muster.policy.market.bids import STANDS, Bid
from muster.policy.market.deal import Offer
from muster.policy.market.prices import Array
from muster.policy.market.table import OfferTable

MANY = 160
"""Counts of all jobs together from which arrays are faster than loops."""


def offers_of(
    bids: Sequence[Bid], device_type: str, horizon: float, now: float, *, wanted: bool
) -> list[Offer]:
    """Return what each number of devices of the type is worth to each job (see `Bid.offer`)."""
    if sum([len(bid.curves[device_type].workers) for bid in bids]) < MANY:
        return [bid.offer(device_type, horizon, now, wanted=wanted) for bid in bids]
    table = table_of(bids, device_type, horizon, now, wanted=wanted)
    return table.offers()


def table_of(
    bids: Sequence[Bid], device_type: str, horizon: float, now: float, *, wanted: bool
) -> OfferTable:
    """Return the same as a table."""
    sizes = [bid.curves[device_type].counts for bid in bids]
    if not bids:
        return OfferTable(sizes, np.zeros((0, 1)), np.zeros((0, 1)), [])
    columns = [bid.columns(device_type) for bid in bids]
    devices, *rates = np.concatenate(columns, axis=1)
    lengths = [len(each) - 1 for each in sizes]
    terms = np.array([bid.terms(device_type, horizon, now) for bid in bids]).T
    held = [bid.column(device_type) for bid in bids]
    worth = _worth(rates, terms, lengths, held)
    there = np.arange(max(lengths)) < np.array(lengths)[:, None]
    values, counts = np.full((len(bids), 1 + max(lengths)), -inf), np.zeros(there.shape)
    values[:, 0], values[:, 1:][there], counts[there] = 0.0, worth, devices
    counts = np.concatenate((np.zeros((len(bids), 1)), counts), axis=1)
    for row, bid in enumerate(bids):
        if held[row] and not bid.settled(now - STANDS):
            first, last = bid.within(device_type, now, wanted=wanted)
            values[row, 1 : 1 + first] = values[row, 1 + last :] = -inf
    return OfferTable(sizes, counts, values, held)


def _worth(rates: Sequence[Array], terms: Array, lengths: Sequence[int], held: Sequence[int]) -> Array:
    """Return what every count is worth, end to end; `terms`: of each job (see `Bid.terms`)."""
    speeds, slowness, more = rates
    pause, left, price, unpaid, stays, joining, here, firm = terms
    at = np.array(held)
    starts = np.array([*accumulate(lengths, initial=0)][:-1])
    pause, left, price, unpaid, stays, joining, firm = np.repeat(
        (pause, left, price, unpaid, stays, joining, firm), lengths, axis=1
    )
    work = left * slowness
    worth: Array = (
        price * speeds * (1.0 - np.minimum(1.0, (pause + unpaid) / np.minimum(pause + work, stays)))
    )
    worth *= 1.0 - more * np.minimum(1.0, joining / np.minimum(stays, work + joining * more))
    has = at > 0
    worth[(starts + at - 1)[has]] = here[has]
    worth += firm
    return worth
