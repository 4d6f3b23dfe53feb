"""Pools: a tree of quotas, per device type a reservation, a share and a limit (Peloton)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, floor, inf

ROOT = "cluster"
"""The root of every tree: all devices."""
DEFAULT_POOL = "default"
"""The pool of jobs that name none."""
EVERY_TYPE = "*"
"""Stands for each device type without a quota of its own, also for those that are yet to come."""


@dataclass(frozen=True, slots=True)
class Quota:
    """A pool's quota for one device type. None: no limit.

    A reservation or limit may be a part of the devices there are; then the number is what the part
    comes to now, and follows the nodes that come and go (`PoolTree.sized`).
    """

    reservation: int = 0
    share: float = 1.0
    limit: int | None = None
    reservation_part: float | None = None
    """From 0 to 1, of all devices of the type; None: the reservation is a fixed number."""
    limit_part: float | None = None
    """The same of the limit; None: it is a fixed number, or there is none."""

    @property
    def relative(self) -> bool:
        """Whether its numbers follow the devices there are."""
        return self.reservation_part is not None or self.limit_part is not None

    def sized(self, devices: int) -> "Quota":
        """Return the quota with what its parts come to: reservations rounded down, so that they
        never add up to more than there is, limits up, so that a small cluster is not closed."""
        if not self.relative:
            return self
        reservation, limit = self.reservation, self.limit
        if self.limit_part is not None:
            limit = ceil(self.limit_part * devices - _ROUNDING)
        if self.reservation_part is not None:
            reservation = floor(self.reservation_part * devices + _ROUNDING)
        if limit is not None and limit < reservation:
            # One of them is fixed, and the fixed one stands.
            if self.reservation_part is None:
                limit = reservation
            else:
                reservation = limit
        return replace(self, reservation=reservation, limit=limit)


_ROUNDING = 1e-9
"""0.29 * 100 is a little less than 29."""


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
    policy: str | None = None
    """Name of the policy that decides about its jobs; None: that of the pool above."""
    budget: float | None = None
    """Device-hours, of all types, that its jobs may use in a calendar month; None: no limit."""
    aim: str | None = None
    """What its policy aims at, such as makespan; None: what it is set to above."""

    def quota(self, device_type: str) -> Quota:
        """Return the pool's quota for a device type."""
        found = self.quotas.get(device_type)
        return found if found is not None else self.quotas.get(EVERY_TYPE, _DEFAULT)

    def sized(self, devices: Mapping[str, int]) -> "Pool":
        """Return the pool with what the parts in its quotas come to; itself if that is as before."""
        if not any(quota.relative for quota in self.quotas.values()):
            return self
        types = dict.fromkeys((*self.quotas, *devices))
        quotas = {each: self.quota(each).sized(devices.get(each, 0)) for each in types}
        return self if quotas == self.quotas else replace(self, quotas=quotas)


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
    relative: bool = field(default=False, init=False, repr=False, compare=False)
    """Whether some quota is a part of the devices there are."""
    _sized: Mapping[str, int] | None = field(default=None, init=False, repr=False, compare=False)
    """The devices that its parts were last sized to: the same ones come with nearly every fact."""

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
        quotas = (quota for pool in self.pools.values() for quota in pool.quotas.values())
        object.__setattr__(self, "relative", any(quota.relative for quota in quotas))
        self._reject_cycles()
        self._reject_bad_quotas()

    def leaves(self) -> tuple[str, ...]:
        """Return the pools that take jobs."""
        return tuple(name for name in self.pools if not self.below[name])

    def capped(self) -> frozenset[str]:
        """Return the pools that limit the devices of each user."""
        return frozenset(name for name, pool in self.pools.items() if pool.devices_per_user is not None)

    def sized(self, devices: Mapping[str, int]) -> "PoolTree":
        """Return the tree with what parts come to, of these devices by type; itself if as before."""
        if devices is self._sized:
            return self
        pools = {name: pool.sized(devices) for name, pool in self.pools.items()}
        same = all(pools[name] is pool for name, pool in self.pools.items())
        tree = self if same else PoolTree(pools)
        object.__setattr__(tree, "_sized", devices)
        return tree

    def ancestry(self, name: str) -> Iterator[str]:
        """Yield the pool and its ancestors, without the root."""
        while name != ROOT:
            yield name
            name = self.pools[name].parent

    def policy_of(self, name: str, cluster: str) -> str:
        """Return the policy of a pool: its own, else that of the nearest pool above, else the
        cluster's. The nearest aim up to there is its last option: `muster:aim=makespan`."""
        above = (self.pools[each].policy for each in self.ancestry(name))
        policy = next((each for each in above if each is not None), cluster)
        holder = self.aimed(name)
        if holder is None:
            return policy
        return f"{policy}{',' if ':' in policy else ':'}aim={self.pools[holder].aim}"

    def aimed(self, name: str) -> str | None:
        """Return the pool that says what the policy of a pool aims at; None: nobody does."""
        for each in self.ancestry(name):
            if self.pools[each].aim is not None:
                return each
            if self.pools[each].policy is not None:
                return None
        return None

    def overbooked(self, devices: Mapping[str, int]) -> tuple[str, int, int] | None:
        """Return the first type of which pools reserve more than there is, and both amounts."""
        for device_type, there in devices.items():
            top = (self.pools[name].quota(device_type).sized(there) for name in self.below[ROOT])
            promised = sum(quota.reservation for quota in top)
            if promised > there:
                return device_type, promised, there
        return None

    def overpromised(self) -> str:
        """Return that pools reserve more than all of a device type, whatever there is; empty: no."""
        top = [self.pools[name] for name in self.below[ROOT]]
        for device_type in dict.fromkeys(each for pool in top for each in pool.quotas):
            part = sum(pool.quota(device_type).reservation_part or 0.0 for pool in top)
            if part > 1 + _ROUNDING:
                kind = "every device type" if device_type == EVERY_TYPE else device_type
                return f"reserve {_percent(part)} of {kind} in total"
        return ""

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
        """Reject pools that reserve more than the one around them. Only like is compared with like:
        what a part comes to is not known yet."""
        own = pool.quota(device_type)
        kids = [self.pools[name].quota(device_type) for name in self.below[pool.name]]
        fixed = sum(kid.reservation for kid in kids if kid.reservation_part is None)
        parts = sum(kid.reservation_part or 0.0 for kid in kids)
        if own.reservation_part is None and fixed > own.reservation:
            promised, held = str(fixed), str(own.reservation)
        elif parts > (own.reservation_part or 0.0) + _ROUNDING:
            promised, held = _percent(parts), _percent(own.reservation_part or 0.0)
        else:
            return
        raise PoolError(
            pool.name, f"{device_type}: its pools reserve {promised} together, it reserves only {held}"
        )


def _percent(part: float) -> str:
    return f"{part * 100:g}%"


def _fault(quota: Quota) -> str | None:
    """Return what is wrong with a quota by itself."""
    if not 0 < quota.share < inf:
        return f"share must be above 0, not {quota.share:g}"
    for part in (quota.reservation_part, quota.limit_part):
        if part is not None and not 0 <= part <= 1:
            return f"a part must be from 0% to 100%, not {_percent(part)}"
    if None not in (quota.reservation_part, quota.limit_part):
        return _parts_fault(quota)
    if quota.reservation < 0:
        return "reservation must not be negative"
    if quota.limit is not None and quota.limit < quota.reservation:
        return f"limit {quota.limit} is below reservation {quota.reservation}"
    return None


def _parts_fault(quota: Quota) -> str | None:
    limit, reservation = quota.limit_part or 0.0, quota.reservation_part or 0.0
    if limit < reservation:
        return f"limit {_percent(limit)} is below reservation {_percent(reservation)}"
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


def whole_pool(name: str = DEFAULT_POOL) -> PoolTree:
    """Return a tree of one pool that reserves all there is, whatever joins."""
    return PoolTree({name: Pool(name, quotas={EVERY_TYPE: Quota(reservation_part=1.0)})})
