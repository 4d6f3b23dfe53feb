"""How much each pool uses, and what it may still take: the rules of admission (Peloton).

A gang is admitted if, for its pool and every pool above it, use plus gang stays within the limit and
the entitlement; one that is not preemptible must also stay within its own pool's reservation. Where
a pool is entitled to all there is, the entitlement says nothing that the devices do not say.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from muster.core.quotas.demand import held_by_type
from muster.model.cluster import Cluster
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
    """One rule for one pool: what its use would be, and what it may be."""

    code: Code
    pool: str
    device_type: str
    used: int
    asked: int
    most: int

    @property
    def over(self) -> int:
        """Devices by which it would be broken."""
        return self.used + self.asked - self.most


@dataclass(frozen=True, slots=True)
class Earmark:
    """Devices that younger jobs of a pool leave to an old one."""

    job: int
    devices: int
    fixed: bool
    """What it waits for is the reservation, which binds only jobs that are not preemptible."""


class Tallies:
    """Devices that jobs have, by pool and type."""

    __slots__ = ("chains", "fixed", "fixed_held", "held", "used")

    def __init__(self, pools: PoolTree) -> None:
        self.chains = {leaf: tuple(pools.ancestry(leaf)) for leaf in pools.leaves()}
        self.used: Tally = Counter()
        """What jobs will hold once every change under way is done; entitlements bind this."""
        self.held: Tally = Counter()
        """What jobs hold at this moment; limits bind this."""
        self.fixed: Tally = Counter()
        """The part of `used` that is not preemptible."""
        self.fixed_held: Tally = Counter()
        """The part of `held` that is not preemptible; reservations bind this."""

    def copy(self) -> "Tallies":
        """The same figures, to be changed apart from these."""
        other = object.__new__(Tallies)
        other.chains = self.chains
        for name in ("used", "held", "fixed", "fixed_held"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def enter(self, cluster: Cluster, state: JobState, sign: int) -> None:
        """Enter what a job has, or strike it out with sign -1."""
        if state.placement is None:
            return
        now = held_by_type(cluster, state.placement.slots)
        then = held_by_type(cluster, state.target.slots) if state.target else now
        if state.phase is Phase.PREEMPTING:
            then = Counter()
        self.add(self.used, self.fixed, state.job, then, sign)
        # A move holds both places, but only for a moment, and only to let go of the old one.
        self.add(self.held, self.fixed_held, state.job, now | then, sign)

    def add(self, all_: Tally, fixed: Tally, job: Job, amounts: Amounts, sign: int) -> None:
        """Enter amounts for the job's pool and those around it."""
        for device_type, amount in amounts.items():
            for pool in self.chains[job.pool]:
                all_[pool, device_type] += sign * amount
                if not job.preemptible:
                    fixed[pool, device_type] += sign * amount


class Quotas:
    """Running totals of one cycle."""

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
        """What is withheld for jobs that wait: it binds those behind them, but is no use of theirs."""
        self.fixed_promised: Tally = Counter()
        """The part of it that is not preemptible."""
        self._earmarks: dict[tuple[str, str], Earmark] = {}

    def verdict(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> Code | None:
        """Why the pool may not take this much more, or None; `borrow` looks past the entitlement."""
        broken = self.broken(job, amounts, borrow=borrow)
        return None if broken is None else broken.code

    def broken(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> Bound | None:
        """The first rule that this much more would break."""
        bounds = self._bounds(job, amounts, self.held, self.fixed_held, borrow=borrow)
        return next((bound for bound in bounds if bound.over > 0), None)

    def overshoots(self, job: Job, amounts: Amounts) -> list[Bound]:
        """The rules that would be broken even when every change under way is done."""
        bounds = self._bounds(job, amounts, self.used, self.fixed, borrow=False)
        return [bound for bound in bounds if bound.over > 0]

    def binding(self, job: Job, amounts: Amounts, code: Code) -> Quantity | None:
        """The figures of the pool that binds by this rule: what it uses and what stops it."""
        for bound in self._bounds(job, amounts, self.held, self.fixed_held, borrow=False):
            if bound.code is code and bound.over > 0:
                asked = amounts[bound.device_type]
                return Quantity(bound.pool, bound.device_type, asked, bound.used, bound.most)
        return None

    def earmark(self, job: Job, amounts: Amounts, *, fixed: bool) -> None:
        """Let no younger job of the pool take what this one waits for, if it can ever have it."""
        for pool, device_type, amount in self._entries(job, amounts):
            if (job.pool, device_type) in self._earmarks:
                return
            if amount > self._entitled.of(pool, device_type):
                return
        for device_type, amount in amounts.items():
            self._earmarks[job.pool, device_type] = Earmark(job.number, amount, fixed)

    def left_to(self, job: Job, quantity: Quantity) -> int | None:
        """The older job of the pool that these devices are left to."""
        earmark = self._earmarks.get((quantity.pool, quantity.device_type))
        return earmark.job if earmark and earmark.job != job.number else None

    def earmarked_for(self, job: Job) -> bool:
        """Whether the job has an earmark."""
        return any(earmark.job == job.number for earmark in self._earmarks.values())

    def within_reservation(self, job: Job, amounts: Amounts) -> bool:
        """Whether the pool, with this much more, would still be inside its own reservation."""
        return all(
            self.used[job.pool, device_type] + self.promised[job.pool, device_type] + amount
            <= self._pools.pools[job.pool].quota(device_type).reservation
            for device_type, amount in amounts.items()
        )

    def excess(self, pool: str, device_type: str) -> int:
        """How far a pool, leaf or not, is above its entitlement."""
        return self.used[pool, device_type] - self._entitled.of(pool, device_type)

    def unreserved(self, pool: str, device_type: str) -> int:
        """How far a pool, leaf or not, is above its reservation."""
        reserved = self._pools.pools[pool].quota(device_type).reservation
        return self.used[pool, device_type] - reserved

    def around(self, pool: str) -> tuple[str, ...]:
        """A leaf and the pools it is in, from narrow to wide."""
        return self._chains[pool]

    def apart(self, claimant: str, holder: str) -> tuple[str, ...]:
        """The pools around the holder that are not also around the claimant, from narrow to wide."""
        shared = set(self._chains[claimant])
        return tuple(pool for pool in self._chains[holder] if pool not in shared)

    def add(self, job: Job, amounts: Amounts) -> None:
        """Enter devices a job takes."""
        self._tallies.add(self.used, self.fixed, job, amounts, 1)
        self._tallies.add(self.held, self.fixed_held, job, amounts, 1)

    def promise(self, job: Job, amounts: Amounts, sign: int = 1) -> None:
        """Enter devices that a job is to have (or, with sign -1, strike them out)."""
        self._tallies.add(self.promised, self.fixed_promised, job, amounts, sign)

    def give_back(self, job: Job, amounts: Amounts) -> None:
        """Enter devices a job is to give back: it holds them until the executor says it is done."""
        self._tallies.add(self.used, self.fixed, job, amounts, -1)

    def _bounds(
        self, job: Job, amounts: Amounts, held: Tally, fixed: Tally, *, borrow: bool
    ) -> Iterator[Bound]:
        """Each rule for each pool around the job, the hardest first."""
        rows = [(p, t, n, self._pools.pools[p].quota(t)) for p, t, n in self._entries(job, amounts)]
        for pool, kind, amount, quota in rows:
            if quota.limit is not None:
                asked = amount + self._set_aside(job, pool, kind, fixed=False)
                used = held[pool, kind] + self.promised[pool, kind]
                yield Bound(Code.WAITING_LIMIT, pool, kind, used, asked, quota.limit)
        for pool, kind, amount, quota in rows:
            if not job.preemptible and pool == job.pool:
                asked = amount + self._set_aside(job, pool, kind, fixed=True)
                used = fixed[pool, kind] + self.fixed_promised[pool, kind]
                yield Bound(Code.WAITING_RESERVATION, pool, kind, used, asked, quota.reservation)
        for pool, kind, amount, quota in rows:
            aside = self._set_aside(job, pool, kind, fixed=False)
            entitled = self._entitled.of(pool, kind)
            if not job.preemptible:
                # It is asked for on one type only, but reserved on each: what is, it may have.
                entitled = max(entitled, quota.reservation)
            # Whoever borrows past an earmark would keep the pool above its entitlement for ever.
            if (aside or not borrow) and (aside or entitled < self._available.get(kind, 0)):
                used = self.used[pool, kind] + self.promised[pool, kind]
                yield Bound(Code.WAITING_QUOTA, pool, kind, used, amount + aside, entitled)

    def _set_aside(self, job: Job, pool: str, device_type: str, *, fixed: bool) -> int:
        earmark = self._earmarks.get((pool, device_type))
        if earmark is None or earmark.job == job.number or earmark.fixed != fixed:
            return 0
        return earmark.devices

    def _entries(self, job: Job, amounts: Amounts) -> Iterator[tuple[str, str, int]]:
        for device_type, amount in amounts.items():
            for pool in self._chains[job.pool]:
                yield pool, device_type, amount
