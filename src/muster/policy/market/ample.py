"""A pool that has enough for everybody: prices decide nothing where nobody goes short.

If what suits each job of a pool best is to be had for all of them at once, that is the deal: k workers
are worth c s(k) (1 - pause / h) to a job, which is largest for the same k at any price c. On many
clusters that is most of the time.
"""

from collections.abc import Container, Sequence

from muster.policy.market.bids import Bid
from muster.policy.market.deal import Offer
from muster.policy.market.offers import offers_of
from muster.policy.room import Room

ROUNDING = 1e-9
"""Worths that differ by less, relative to the largest, are compared at their price."""
RAISED = 1e-4
"""The same of jobs that are served regardless of prices, relative to their speed at its best: beside
the bonus that serves them first, what is small is lost."""


PAUSE = 0.001
"""s of a pause that counts for more than `ROUNDING` of whatever a job is worth, `FIRMEST` included."""


def uniform(bids: Sequence[Bid], room: Room) -> bool:
    """Whether these jobs of one pool take devices from its room in the same way: workers alone, within
    no limit of each user; and the room of jobs that may be preempted is not that of others."""
    if not bids:
        return True
    first = bids[0].job.preemptible
    for bid in bids:  # hot path: of every job in every cycle
        if bid.job.preemptible is not first or len(bid.job.roles) > 1:
            return False
    return not room.limits_users(bids[0].job)


def may_fit(bids: Sequence[Bid], device_type: str, devices: int) -> bool:
    """Whether there are as many devices, of the only type that there is, as all these jobs can use."""
    left = devices
    for bid in bids:
        curve = bid.curves.get(device_type)
        if curve is None:
            return False
        left -= curve.useful
        if left < 0:
            return False
    return True


def best_for_all(
    bids: Sequence[Bid],
    device_type: str,
    devices: int,
    lasts: float,
    now: float,
    *,
    wanted: bool,
    first: Container[int],
) -> list[int] | None:
    """Return the workers that suit each job best; None: there are not enough for all, or one of them
    would rather wait. `lasts` and `wanted` as in `Bid.offer`; `first`: jobs served regardless of
    prices."""
    found, unsure = [0] * len(bids), list[int]()
    for i, bid in enumerate(bids):
        if _stays(bid, device_type) and (bid.number not in first or _clearly(bid, lasts)):
            several = bid.number in first or len(bid.curves[device_type].devices) > 1
            found[i], bid.price = bid.held, float(several)
        elif _gains(bid, device_type, lasts, now):
            found[i] = bid.curves[device_type].workers[0]
        else:
            unsure.append(i)
            bid.price = 1.0
    offers = offers_of([bids[i] for i in unsure], device_type, lasts, now, wanted=wanted)
    for i, offer in zip(unsure, offers, strict=True):
        bid = bids[i]
        peak = bid.curves[device_type].peaks[-1] / min(1.0, bid.weight)
        found[i] = _best(offer, RAISED * peak if bid.number in first else 0.0) // bid.each
    asked = sum([workers * bid.each for workers, bid in zip(found, bids, strict=True)])
    return None if asked > devices or 0 in found else found


def _stays(bid: Bid, device_type: str) -> bool:
    """Whether it has the workers with which it is fastest: all others cost it a pause as well."""
    known = bid.at_best and bid.here_only is None
    return known and bid.type_held == device_type and bid.pause > PAUSE


def _clearly(bid: Bid, lasts: float) -> bool:
    """Whether the pause alone makes all others worth less than what it has by twice what is compared
    at their price, for a job that is served regardless of prices."""
    return bid.pause * min(1.0, bid.weight) > 2.0 * RAISED * lasts


def _gains(bid: Bid, device_type: str, lasts: float, now: float) -> bool:
    """Whether it has one size only, which is worth something to it: what `Bid.offer` would say."""
    curve = bid.curves[device_type]
    if len(curve.devices) > 1:
        return False
    if bid.held:
        has = bid.held == curve.workers[0] and bid.type_held == device_type
        return has and bid.outlook.here != 0.0
    stays = bid.stays(lasts, now)
    return bid.pause < min(bid.pause + bid.left * curve.times[0], stays)


def _best(offer: Offer, rounding: float) -> int:
    """Return the count that is worth most, the fewest of equals; 0: none is worth anything, or two
    are too close to tell."""
    counts, values = offer
    best = max(values)
    near = best - max(rounding, ROUNDING * best)
    if best <= 0.0 or [value for value in values if near <= value < best]:
        return 0
    return counts[values.index(best)]
