"""The pools of a cluster file as a tree of quotas."""

from collections.abc import Mapping
from typing import TypeVar

from muster.files.cluster.cluster_entries import PoolEntry
from muster.files.errors import FieldError, Loc, one_of
from muster.files.source.quantity import PoolAmount, name_at
from muster.model.cluster import Cluster
from muster.model.pool import (
    EVERY_TYPE,
    ROOT,
    Pool,
    PoolError,
    PoolTree,
    Quota,
    single_pool,
    whole_pool,
)
from muster.policy.registry import POLICIES, PolicyError, every_aim

MAX_POOLS = 1_000
"""More is a mistake: entitlements are computed pool by pool each cycle."""

MAX_POOL_DEPTH = 32
"""Deeper than any organisation."""

NONE = PoolAmount()

_CLUSTERS = "*"
"""Stands for the policy of the cluster, which the daemon is told and no file says."""

N = TypeVar("N", PoolAmount, float)


def pools_of(entries: Mapping[str, PoolEntry] | None, cluster: Cluster) -> PoolTree:
    """Build the tree of the file's pools and check it against the cluster's devices."""
    if entries is None:
        return whole_pool() if cluster.open else single_pool(cluster.devices_by_type())
    _refuse_bad_names(entries)
    _refuse_bad_parents(entries)
    pools = {name: _pool(name, entry, cluster) for name, entry in entries.items()}
    try:
        tree = PoolTree(pools)
    except PoolError as error:
        raise FieldError(("pools", error.pool), error.problem) from None
    _refuse_overbooked(tree, cluster)
    _refuse_bad_aims(tree)
    return tree.sized(cluster.present())


def _refuse_overbooked(tree: PoolTree, cluster: Cluster) -> None:
    """Refuse reservations beyond what the cluster has; where nodes may join, only parts beyond all."""
    problem = tree.overpromised()
    if problem:
        raise FieldError(("pools",), problem)
    over = None if cluster.open else tree.overbooked(cluster.devices_by_type())
    if over is not None:
        device_type, promised, held = over
        problem = f"reserve {promised} {device_type} in total, but the cluster has {held}"
        raise FieldError(("pools",), problem)


def _refuse_bad_aims(tree: PoolTree) -> None:
    """Refuse an aim that its policy does not have, where the file names the policy."""
    for leaf in tree.leaves():
        holder, policy = tree.aimed(leaf), tree.policy_of(leaf, _CLUSTERS)
        if holder is None or policy.startswith(_CLUSTERS):
            continue
        try:
            POLICIES.find(policy)
        except PolicyError as error:
            raise FieldError(("pools", holder, "aim"), f"pool {leaf!r}: {error}") from None


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
    loc: Loc = ("pools", name)
    if entry.allow == []:
        raise FieldError((*loc, "allow"), "names nobody; leave it out to allow everybody")
    if entry.policy is not None:
        _check_policy((*loc, "policy"), entry.policy)
    if entry.aim is not None and entry.aim not in every_aim():
        raise FieldError((*loc, "aim"), one_of(entry.aim, "policy's aim", every_aim()))
    rules = (
        tuple(entry.allow or ()),
        entry.max_priority,
        entry.devices_per_user,
        entry.policy,
        entry.budget,
        entry.aim,
    )
    return Pool(name, entry.parent, _quotas(entry, cluster, loc), *rules)


def _check_policy(loc: Loc, text: str) -> None:
    if text.partition(":")[0] not in POLICIES:
        raise FieldError(loc, one_of(text, "policy", POLICIES))
    try:
        POLICIES.find(text)
    except PolicyError as error:
        raise FieldError(loc, str(error)) from None


def _quotas(entry: PoolEntry, cluster: Cluster, loc: Loc) -> dict[str, Quota]:
    types = _types(entry, cluster, loc)
    every = (EVERY_TYPE,) if cluster.open else ()
    _refuse_ambiguous(entry.reservation, types, (*loc, "reservation"))
    _refuse_ambiguous(entry.limit, types, (*loc, "limit"))
    reservation = _spread(entry.reservation, types, every)
    limit = _spread(entry.limit, types, every)
    share = _spread(entry.share, types, every)
    given = {*reservation, *limit, *share}
    return {
        each: Quota(
            reservation.get(each, NONE).devices,
            share.get(each, 1.0),
            limit[each].devices if each in limit else None,
            reservation.get(each, NONE).part,
            limit.get(each, NONE).part,
        )
        for each in (*types, *(each for each in every if each in given))
    }


def _types(entry: PoolEntry, cluster: Cluster, loc: Loc) -> tuple[str, ...]:
    """Return the device types of a pool. Where nodes may join, those it names need not be there yet."""
    known = cluster.device_types()
    named = {
        device_type: field
        for field in ("reservation", "limit", "share")
        for device_type in getattr(entry, field)
        if device_type != EVERY_TYPE
    }
    for device_type, field in named.items():
        if cluster.open:
            name_at((*loc, field, device_type), device_type)
        elif device_type not in known:
            problem = one_of(device_type, "device type of this cluster", known)
            raise FieldError((*loc, field, device_type), problem)
    return tuple(dict.fromkeys((*known, *named)))


def _refuse_ambiguous(amounts: Mapping[str, PoolAmount], types: tuple[str, ...], loc: Loc) -> None:
    """Refuse a bare number where there is not one type that it could be for."""
    bare = amounts.get(EVERY_TYPE)
    if bare is None or bare.part is not None or len(types) == 1:
        return
    example = "{" + ", ".join(f"{each}: 4" for each in types[:2]) + "}"
    kinds = f"{len(types)} device types" if types else "no devices"
    hint = f"; give one for each, for example {example}, or a part of all, such as 25%" if types else ""
    raise FieldError(loc, f"a bare number is ambiguous: the cluster has {kinds}{hint}")


def _spread(amounts: Mapping[str, N], types: tuple[str, ...], every: tuple[str, ...]) -> dict[str, N]:
    """Return amounts by device type; a bare one is for every type, also for those that join later."""
    if EVERY_TYPE not in amounts:
        return dict(amounts)
    bare = amounts[EVERY_TYPE]
    fixed = isinstance(bare, PoolAmount) and bare.part is None
    return dict.fromkeys(types if fixed else (*types, *every), bare)
