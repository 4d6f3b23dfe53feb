"""The pools of a cluster file as a tree of quotas."""

from collections.abc import Mapping
from typing import TypeVar

from muster.files.cluster.cluster_entries import PoolEntry
from muster.files.errors import FieldError, Loc, one_of
from muster.files.source.quantity import name_at
from muster.model.cluster import Cluster
from muster.model.pool import EVERY_TYPE, ROOT, Pool, PoolError, PoolTree, Quota, single_pool

MAX_POOLS = 1_000
"""More is a mistake: entitlements are computed pool by pool each cycle."""

MAX_POOL_DEPTH = 32
"""Deeper than any organisation."""

N = TypeVar("N", int, float)


def pools_of(entries: Mapping[str, PoolEntry] | None, cluster: Cluster) -> PoolTree:
    """Build the tree of the file's pools and check it against the cluster's devices."""
    if entries is None:
        return single_pool(cluster.devices_by_type())
    _refuse_bad_names(entries)
    _refuse_bad_parents(entries)
    pools = {name: _pool(name, entry, cluster) for name, entry in entries.items()}
    try:
        tree = PoolTree(pools)
    except PoolError as error:
        raise FieldError(("pools", error.pool), error.problem) from None
    over = tree.overbooked(cluster.devices_by_type())
    if over is not None:
        device_type, promised, held = over
        problem = f"reserve {promised} {device_type} in total, but the cluster has {held}"
        raise FieldError(("pools",), problem)
    return tree


def _refuse_bad_names(entries: Mapping[str, PoolEntry]) -> None:
    if not entries:
        raise FieldError(
            ("pools",), "must name at least one pool; remove it to have one pool, 'default'"
        )
    if len(entries) > MAX_POOLS:
        raise FieldError(("pools",), f"has {len(entries)} pools, more than {MAX_POOLS}")
    for name in entries:
        if name == ROOT:
            raise FieldError(("pools", name), f"the name '{ROOT}' is reserved for the whole cluster")
        name_at(("pools", name), name)


def _refuse_bad_parents(entries: Mapping[str, PoolEntry]) -> None:
    for name, entry in entries.items():
        if entry.parent != ROOT and entry.parent not in entries:
            raise FieldError(("pools", name, "parent"), one_of(entry.parent, "pool", entries))
    for name in entries:
        if _depth(name, entries) > MAX_POOL_DEPTH:
            raise FieldError(("pools", name), f"is nested deeper than {MAX_POOL_DEPTH} pools")


def _depth(name: str, entries: Mapping[str, PoolEntry]) -> int:
    """Return the pools from here to the top; 0 inside a cycle, which the tree itself reports."""
    seen: set[str] = set()
    while name != ROOT:
        if name in seen:
            return 0
        seen.add(name)
        name = entries[name].parent
    return len(seen)


def _pool(name: str, entry: PoolEntry, cluster: Cluster) -> Pool:
    """Build a pool with a quota for every device type; the tree checks them."""
    types = cluster.device_types()
    loc: Loc = ("pools", name)
    reservation = _per_type(entry.reservation, types, (*loc, "reservation"))
    limit = _per_type(entry.limit, types, (*loc, "limit"))
    share = entry.share
    if EVERY_TYPE in share:
        share = dict.fromkeys(types, share[EVERY_TYPE])
    share = _per_type(share, types, (*loc, "share"))
    quotas = {
        each: Quota(reservation.get(each, 0), share.get(each, 1.0), limit.get(each)) for each in types
    }
    if entry.allow == []:
        raise FieldError((*loc, "allow"), "names nobody; leave it out to allow everybody")
    rules = (tuple(entry.allow or ()), entry.max_priority, entry.devices_per_user)
    return Pool(name, entry.parent, quotas, *rules)


def _per_type(amounts: Mapping[str, N], types: tuple[str, ...], loc: Loc) -> dict[str, N]:
    """Return amounts by device type; a bare number is for the only type."""
    if EVERY_TYPE in amounts:
        if len(types) != 1:
            example = "{" + ", ".join(f"{each}: 4" for each in types[:2]) + "}"
            kinds = f"{len(types)} device types" if types else "no devices"
            hint = f"; give one for each, for example {example}" if types else ""
            raise FieldError(loc, f"a bare number is ambiguous: the cluster has {kinds}{hint}")
        return {types[0]: amounts[EVERY_TYPE]}
    for name in amounts:
        if name not in types:
            raise FieldError((*loc, name), one_of(name, "device type of this cluster", types))
    return dict(amounts)
