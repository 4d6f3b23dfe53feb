"""The entitlement of every pool, from its quota and all demand.

Source: Peloton's entitlement calculation (design/algorithms.md, section 2.2), top-down through the
tree and for each device type by itself. Of its three steps the first two are implemented:

1. every pool gets what it asks for up to its reservation;
2. what is left of the parent's entitlement is lent by share to the pools that ask for more, never
   above demand or limit.

Step 3 of Peloton, handing out unasked devices in advance, is left out: they stay idle until the first
cycle in which some job asks.

Peloton uses fractions; devices are whole, so the rest of a division goes to the largest remainders,
ties to the first pool in the tree.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.model.pool import ROOT, Entitlements, PoolError, PoolTree


def entitle(
    pools: PoolTree, capacity: Mapping[str, int], demand: Mapping[tuple[str, str], int]
) -> Entitlements:
    """Return what each pool may use now; `demand` is what each leaf has and wants."""
    for name, _ in demand:
        if name not in pools.pools or pools.below[name]:
            raise PoolError(name, "takes no jobs, but has demand")
    order = _parents_first(pools)
    devices: dict[tuple[str, str], int] = {}
    for device_type, size in capacity.items():
        asks = _asks(pools, order, device_type, demand)
        for name, entitlement in _deal_tree(pools, order, device_type, size, asks).items():
            devices[name, device_type] = entitlement
    return Entitlements(devices, capacity)


@dataclass(frozen=True, slots=True)
class _Ask:
    """What a pool wants of its parent: demand capped at its limits, and the reserved part of it."""

    want: int
    owed: int
    share: float


def _parents_first(pools: PoolTree) -> list[str]:
    order = [ROOT]
    for name in order:  # grows while it is walked
        order.extend(pools.below[name])
    return order


def _asks(
    pools: PoolTree, order: Sequence[str], device_type: str, demand: Mapping[tuple[str, str], int]
) -> dict[str, _Ask]:
    """Bottom up: an inner pool wants the sum of its pools, up to its limit."""
    asks: dict[str, _Ask] = {}
    for name in reversed(order[1:]):
        quota = pools.pools[name].quota(device_type)
        kids = pools.below[name]
        want = sum(asks[kid].want for kid in kids) if kids else demand.get((name, device_type), 0)
        if quota.limit is not None:
            want = min(want, quota.limit)
        asks[name] = _Ask(want, min(want, quota.reservation), quota.share)
    return asks


def _deal_tree(
    pools: PoolTree, order: Sequence[str], device_type: str, size: int, asks: Mapping[str, _Ask]
) -> dict[str, int]:
    """Top down: divide each pool's entitlement among the pools below it."""
    entitled = {ROOT: size}
    for name in order:
        kids = pools.below[name]
        if kids:
            given = _deal(entitled[name], [asks[kid] for kid in kids])
            entitled.update(zip(kids, given, strict=True))
    del entitled[ROOT]
    return entitled


def _deal(room: int, asks: Sequence[_Ask]) -> list[int]:
    """One level: reservations first, then the rest by share."""
    owed = [ask.owed for ask in asks]
    left = room - sum(owed)
    if left < 0:  # nodes are lost: reservations cannot all be met
        return _apportion(room, owed)
    lent = _lend(left, [ask.want - ask.owed for ask in asks], _weights(asks))
    return [first + second for first, second in zip(owed, lent, strict=True)]


def _weights(asks: Sequence[_Ask]) -> list[int]:
    """Return the shares as integers in the same proportion: every float is n / 2**k."""
    ratios = [ask.share.as_integer_ratio() for ask in asks]
    common = max(below for _, below in ratios)
    return [above * (common // below) for above, below in ratios]


def _lend(left: int, needs: Sequence[int], weights: Sequence[int]) -> list[int]:
    """Divide by weight, capped at need, until all needs are met or nothing is left.

    A pool that needs no more than its part gets all it needs, which only enlarges the other parts; once
    no such pool is left, the rest is divided once.
    """
    lent = [0] * len(needs)
    # In this order one pass is enough; the exact test below is right in any order.
    hungry = sorted((i for i, need in enumerate(needs) if need), key=lambda i: needs[i] / weights[i])
    total = sum(weights[i] for i in hungry)
    while hungry:
        unserved = []
        for i in hungry:
            if left * weights[i] >= needs[i] * total:
                lent[i] = needs[i]
                left -= needs[i]
                total -= weights[i]
            else:
                unserved.append(i)
        if len(unserved) == len(hungry):
            break
        hungry = unserved
    hungry.sort()
    for i, part in zip(hungry, _apportion(left, [weights[i] for i in hungry]), strict=True):
        lent[i] = part
    return lent


def _apportion(amount: int, weights: Sequence[int]) -> list[int]:
    """Divide a whole amount by weight; the rest goes to the largest remainders, ties in order."""
    total = sum(weights)
    if not total:
        return [0] * len(weights)
    parts = [amount * weight // total for weight in weights]
    odd = amount - sum(parts)
    by_remainder = sorted(range(len(weights)), key=lambda i: -(amount * weights[i] % total))
    for i in by_remainder[:odd]:
        parts[i] += 1
    return parts
