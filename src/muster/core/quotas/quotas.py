"""What each pool uses and may still take: the rules of admission (Peloton).

A gang is admitted if, for its pool and every pool above, use plus gang stays within the limit and the
entitlement; one that is not preemptible must also stay within its own pool's reservation. An
entitlement to all devices does not bind.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.model.job import Job
from muster.model.pool import Entitlements, PoolTree
from muster.model.reason import Code, Quantity
from muster.model.view import JobState, Phase

Amounts = Mapping[str, int]
"""Devices by type."""
Tally = Counter[tuple[str, str]]
"""Devices by pool, inner pools included, and type."""


@dataclass(frozen=True, slots=True)
class Bound:
    """One rule for one pool: its use, and its maximum."""

    code: Code
    pool: str
    device_type: str
    used: int
    asked: int
    most: int
    user: str = ""
    """Whose use it is, if the rule is for each user."""

    @property
    def over(self) -> int:
        """Devices by which it would be exceeded."""
        return self.used + self.asked - self.most


@dataclass(frozen=True, slots=True)
class Earmark:
    """Devices that younger jobs of a pool leave to an older one."""

    job: int
    devices: int
    fixed: bool
    """It waits for the reservation, which binds only jobs that are not preemptible."""


def user_key(user: str) -> str:
    """Return the key under which a user's devices are tallied: no device type has a blank."""
    return f"user {user}"


class Tallies:
    """Devices that jobs have, by pool and type; in pools that limit users, also by user."""

    __slots__ = ("capped", "chains", "fixed", "fixed_held", "held", "used")

    def __init__(self, pools: PoolTree) -> None:
        self.capped = pools.capped()
        self.chains = {leaf: tuple(pools.ancestry(leaf)) for leaf in pools.leaves()}
        self.used: Tally = Counter()
        """Held once all changes in progress are done; entitlements bind this."""
        self.held: Tally = Counter()
        """Held now; limits bind this."""
        self.fixed: Tally = Counter()
        """The part of `used` that is not preemptible."""
        self.fixed_held: Tally = Counter()
        """The part of `held` that is not preemptible; reservations bind this."""

    def copy(self) -> "Tallies":
        """Return an independent copy."""
        other = object.__new__(Tallies)
        other.chains, other.capped = self.chains, self.capped
        for name in ("used", "held", "fixed", "fixed_held"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def enter(self, state: JobState, sign: int, now: Counter[str], then: Counter[str]) -> None:
        """Add what a job has now and once its change is done, by type, or remove it with sign -1."""
        if state.placement is None:
            return
        if state.phase is Phase.PREEMPTING:
            then = Counter()
        self.add(self.used, self.fixed, state.job, then, sign)
        # A migration holds both placements, but only for a moment.
        most = now if then is now else now | then
        self.add(self.held, self.fixed_held, state.job, most, sign)

    def add(self, all_: Tally, fixed: Tally, job: Job, amounts: Amounts, sign: int) -> None:
        """Add amounts to the job's pool and its ancestors."""
        for device_type, amount in amounts.items():
            for pool in self.chains[job.pool]:
                all_[pool, device_type] += sign * amount
                if not job.preemptible:
                    fixed[pool, device_type] += sign * amount
        if self.capped and amounts:
            for pool in self.capped.intersection(self.chains[job.pool]):
                all_[pool, user_key(job.user)] += sign * sum(amounts.values())


class Quotas:
    """Use of the pools during one cycle, and what each may still take."""

    def __init__(
        self, pools: PoolTree, entitled: Entitlements, available: Amounts, tallies: Tallies
    ) -> None:
        self._pools = pools
        self._entitled = entitled
        self._available = available
        self._tallies = tallies
        self._chains = tallies.chains
        self.used, self.held = tallies.used, tallies.held
        self.fixed, self.fixed_held = tallies.fixed, tallies.fixed_held
        self.promised: Tally = Counter()
        """Withheld for waiting jobs: it binds those behind them."""
        self.fixed_promised: Tally = Counter()
        """The part of `promised` that is not preemptible."""
        self._earmarks: dict[tuple[str, str], Earmark] = {}

    def verdict(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> Code | None:
        """Return why the pool may not take this much more; `borrow` ignores the entitlement."""
        broken = self.broken(job, amounts, borrow=borrow)
        return None if broken is None else broken.code

    def broken(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> Bound | None:
        """Return the first rule that this much more would break."""
        bounds = self._bounds(job, amounts, self.held, self.fixed_held, borrow=borrow)
        return next((bound for bound in bounds if bound.over > 0), None)

    def overshoots(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> list[Bound]:
        """Return the rules that would be broken even after all changes in progress."""
        bounds = self._bounds(job, amounts, self.used, self.fixed, borrow=borrow)
        return [bound for bound in bounds if bound.over > 0]

    def binding(self, job: Job, amounts: Amounts, code: Code) -> Quantity | None:
        """Return the figures of the pool that binds by this rule."""
        for bound in self._bounds(job, amounts, self.held, self.fixed_held, borrow=False):
            if bound.code is code and bound.over > 0:
                asked = bound.asked if bound.user else amounts[bound.device_type]
                figures = (bound.device_type, asked, bound.used, bound.most, bound.user)
                return Quantity(bound.pool, *figures)
        return None

    def earmark(self, job: Job, amounts: Amounts, *, fixed: bool) -> None:
        """Keep what this job waits for from younger jobs of the pool, if it can ever have it."""
        for pool, device_type, amount in self._entries(job, amounts):
            if (job.pool, device_type) in self._earmarks:
                return
            if amount > self._entitled.of(pool, device_type):
                return
        for device_type, amount in amounts.items():
            self._earmarks[job.pool, device_type] = Earmark(job.number, amount, fixed)

    def left_to(self, job: Job, quantity: Quantity) -> int | None:
        """Return the older job of the pool that these devices are earmarked for."""
        earmark = self._earmarks.get((quantity.pool, quantity.device_type))
        return earmark.job if earmark and earmark.job != job.number else None

    def earmarked_for(self, job: Job) -> bool:
        """Whether the job has an earmark."""
        return any(earmark.job == job.number for earmark in self._earmarks.values())

    def within_reservation(self, job: Job, amounts: Amounts) -> bool:
        """Whether the pool, with this much more, stays within its own reservation."""
        return all(
            self.used[job.pool, device_type] + self.promised[job.pool, device_type] + amount
            <= self._pools.pools[job.pool].quota(device_type).reservation
            for device_type, amount in amounts.items()
        )

    def excess(self, pool: str, device_type: str) -> int:
        """Return how far a pool, leaf or not, is above its entitlement."""
        return self.used[pool, device_type] - self._entitled.of(pool, device_type)

    def unreserved(self, pool: str, device_type: str) -> int:
        """Return how far a pool, leaf or not, is above its reservation."""
        reserved = self._pools.pools[pool].quota(device_type).reservation
        return self.used[pool, device_type] - reserved

    def capped_user(self, job: Job) -> str | None:
        """Return the job's user if some pool around it limits the devices of each."""
        capped = self._tallies.capped
        return job.user if capped and not capped.isdisjoint(self._chains[job.pool]) else None

    def around(self, pool: str) -> tuple[str, ...]:
        """Return a leaf and its ancestors, from narrow to wide."""
        return self._chains[pool]

    def apart(self, claimant: str, holder: str) -> tuple[str, ...]:
        """Return the pools around the holder but not the claimant, from narrow to wide."""
        shared = set(self._chains[claimant])
        return tuple(pool for pool in self._chains[holder] if pool not in shared)

    def add(self, job: Job, amounts: Amounts) -> None:
        """Add devices a job takes."""
        self._tallies.add(self.used, self.fixed, job, amounts, 1)
        self._tallies.add(self.held, self.fixed_held, job, amounts, 1)

    def promise(self, job: Job, amounts: Amounts, sign: int = 1) -> None:
        """Add devices promised to a job, or remove them with sign -1."""
        self._tallies.add(self.promised, self.fixed_promised, job, amounts, sign)

    def give_back(self, job: Job, amounts: Amounts) -> None:
        """Remove devices a job gives back; it holds them until the executor reports it done."""
        self._tallies.add(self.used, self.fixed, job, amounts, -1)

    def keep(self, job: Job, amounts: Amounts) -> None:
        """Undo `give_back`: the job keeps them after all."""
        self._tallies.add(self.used, self.fixed, job, amounts, 1)

    def _bounds(
        self, job: Job, amounts: Amounts, held: Tally, fixed: Tally, *, borrow: bool
    ) -> Iterator[Bound]:
        """Yield each rule for each pool around the job, the hardest first."""
        rows = [(p, t, n, self._pools.pools[p].quota(t)) for p, t, n in self._entries(job, amounts)]
        for pool, kind, amount, quota in rows:
            if quota.limit is not None:
                asked = amount + self._set_aside(job, pool, kind, fixed=False)
                used = held[pool, kind] + self.promised[pool, kind]
                yield Bound(Code.WAITING_LIMIT, pool, kind, used, asked, quota.limit)
        yield from self._user_bounds(job, amounts, held)
        for pool, kind, amount, quota in rows:
            if not job.preemptible and pool == job.pool:
                asked = amount + self._set_aside(job, pool, kind, fixed=True)
                used = fixed[pool, kind] + self.fixed_promised[pool, kind]
                yield Bound(Code.WAITING_RESERVATION, pool, kind, used, asked, quota.reservation)
        for pool, kind, amount, quota in rows:
            aside = self._set_aside(job, pool, kind, fixed=False)
            entitled = self._entitled.of(pool, kind)
            if not job.preemptible:
                # Demand counts on one type only, but the reservation holds on each.
                entitled = max(entitled, quota.reservation)
            # Borrowing past an earmark would keep the pool above its entitlement for ever.
            if (aside or not borrow) and (aside or entitled < self._available.get(kind, 0)):
                used = self.used[pool, kind] + self.promised[pool, kind]
                yield Bound(Code.WAITING_QUOTA, pool, kind, used, amount + aside, entitled)

    def _user_bounds(self, job: Job, amounts: Amounts, held: Tally) -> Iterator[Bound]:
        """Yield the limit on each user's devices for each pool around the job that has one."""
        if self._tallies.capped and amounts:
            key, asked, code = user_key(job.user), sum(amounts.values()), Code.WAITING_USER_LIMIT
            for pool in self._chains[job.pool]:
                most = self._pools.pools[pool].devices_per_user
                if most is not None:
                    used = held[pool, key] + self.promised[pool, key]
                    yield Bound(code, pool, next(iter(amounts)), used, asked, most, job.user)

    def _set_aside(self, job: Job, pool: str, device_type: str, *, fixed: bool) -> int:
        earmark = self._earmarks.get((pool, device_type))
        if earmark is None or earmark.job == job.number or earmark.fixed != fixed:
            return 0
        return earmark.devices

    def _entries(self, job: Job, amounts: Amounts) -> Iterator[tuple[str, str, int]]:
        for device_type, amount in amounts.items():
            for pool in self._chains[job.pool]:
                yield pool, device_type, amount
