"""Pools: a tree of quotas, per device type a reservation, a share and a limit (Peloton)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import inf

ROOT = "cluster"
"""The root of every tree: all devices."""
DEFAULT_POOL = "default"
"""The pool of jobs that name none."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A pool's quota for one device type. None: no limit."""

    reservation: int = 0
    share: float = 1.0
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """A node of the tree. Device types without a quota have the default one."""

    name: str
    parent: str = ROOT
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    allow: tuple[str, ...] = ()
    """Users, and Unix groups as `@group`, who may submit; empty: all. Administrators always may."""
    max_priority: int | None = None
    """Highest priority of a user's job; None: any."""
    devices_per_user: int | None = None
    """Most devices, of all types, that one user's jobs may hold; None: no limit."""

    def quota(self, device_type: str) -> Quota:
        """Return the pool's quota for a device type."""
        return self.quotas.get(device_type, _DEFAULT)


_DEFAULT = Quota()


class PoolError(ValueError):
    """An invalid tree, and the pool at fault."""

    def __init__(self, pool: str, problem: str) -> None:
        super().__init__(f"pool {pool!r}: {problem}")
        self.pool = pool
        self.problem = problem


@dataclass(frozen=True, slots=True)
class PoolTree:
    """Pools by name. Only leaves take jobs."""

    pools: Mapping[str, Pool]
    below: Mapping[str, tuple[str, ...]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if ROOT in self.pools:
            raise PoolError(ROOT, "the name is reserved for the whole cluster")
        below: dict[str, list[str]] = {ROOT: []}
        for pool in self.pools.values():
            below.setdefault(pool.name, [])
        for pool in self.pools.values():
            if pool.parent not in below:
                raise PoolError(pool.name, f"no such pool: {pool.parent!r}")
            below[pool.parent].append(pool.name)
        object.__setattr__(self, "below", {name: tuple(kids) for name, kids in below.items()})
        self._reject_cycles()
        self._reject_bad_quotas()

    def leaves(self) -> tuple[str, ...]:
        """Return the pools that take jobs."""
        return tuple(name for name in self.pools if not self.below[name])

    def capped(self) -> frozenset[str]:
        """Return the pools that limit the devices of each user."""
        return frozenset(name for name, pool in self.pools.items() if pool.devices_per_user is not None)

    def ancestry(self, name: str) -> Iterator[str]:
        """Yield the pool and its ancestors, without the root."""
        while name != ROOT:
            yield name
            name = self.pools[name].parent

    def overbooked(self, devices: Mapping[str, int]) -> tuple[str, int, int] | None:
        """Return the first type of which pools reserve more than there is, and both amounts."""
        for device_type, there in devices.items():
            top = (self.pools[name].quota(device_type) for name in self.below[ROOT])
            promised = sum(quota.reservation for quota in top)
            if promised > there:
                return device_type, promised, there
        return None

    def _reject_cycles(self) -> None:
        sound = {ROOT}
        for name in self.pools:
            seen: list[str] = []
            at = name
            while at not in sound:
                if at in seen:
                    cycle = " -> ".join([*seen[seen.index(at) :], at])
                    raise PoolError(at, f"pools form a cycle: {cycle}")
                seen.append(at)
                at = self.pools[at].parent
            sound.update(seen)

    def _reject_bad_quotas(self) -> None:
        for pool in self.pools.values():
            if pool.devices_per_user is not None and pool.devices_per_user < 1:
                raise PoolError(
                    pool.name, f"devices_per_user must be at least 1, not {pool.devices_per_user}"
                )
            for device_type, quota in pool.quotas.items():
                problem = _fault(quota)
                if problem is not None:
                    raise PoolError(pool.name, f"{device_type}: {problem}")
                if pool.parent != ROOT:
                    self._reject_overbooked(self.pools[pool.parent], device_type)

    def _reject_overbooked(self, pool: Pool, device_type: str) -> None:
        kids = (self.pools[name] for name in self.below[pool.name])
        promised = sum(kid.quota(device_type).reservation for kid in kids)
        held = pool.quota(device_type).reservation
        if promised > held:
            raise PoolError(
                pool.name,
                f"{device_type}: its pools reserve {promised} together, it reserves only {held}",
            )


def _fault(quota: Quota) -> str | None:
    """Return what is wrong with a quota by itself."""
    if not 0 < quota.share < inf:
        return f"share must be above 0, not {quota.share:g}"
    if quota.reservation < 0:
        return "reservation must not be negative"
    if quota.limit is not None and quota.limit < quota.reservation:
        return f"limit {quota.limit} is below reservation {quota.reservation}"
    return None


@dataclass(frozen=True, slots=True)
class Entitlements:
    """Devices of each type that each pool, leaf or not, may use now."""

    devices: Mapping[tuple[str, str], int]
    capacity: Mapping[str, int] = field(default_factory=dict)
    """Devices of each type for all pools together."""

    def of(self, pool: str, device_type: str) -> int:
        """Return the devices of a type that a pool may use now."""
        return self.devices.get((pool, device_type), 0)


def single_pool(reserved: Mapping[str, int] | None = None, name: str = DEFAULT_POOL) -> PoolTree:
    """Return a tree of one pool with these reservations."""
    quotas = {device_type: Quota(reservation=n) for device_type, n in (reserved or {}).items()}
    return PoolTree({name: Pool(name, quotas=quotas)})
