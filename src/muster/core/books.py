"""How much each pool uses, and what it may still take: the rules of admission (Peloton).

A gang is admitted if, for its pool and every pool above it, use plus gang stays within the limit and
the entitlement; one that is not preemptible must also stay within its own pool's reservation.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from muster.core.demand import held_by_type
from muster.model.job import Job
from muster.model.pool import Entitlements, PoolTree
from muster.model.reason import Code, Quantity
from muster.model.view import JobState, Phase, View

Amounts = Mapping[str, int]
"""Devices by type."""


class Books:
    """Running totals of one cycle, by (pool, device type), inner pools included."""

    def __init__(self, view: View, entitled: Entitlements) -> None:
        self._pools: PoolTree = view.pools
        self._entitled = entitled
        self._chains = {leaf: tuple(view.pools.ancestry(leaf)) for leaf in view.pools.leaves()}
        self.used: Counter[tuple[str, str]] = Counter()
        """What jobs will hold once every change under way is done; entitlements bind this."""
        self.held: Counter[tuple[str, str]] = Counter()
        """What jobs hold at this moment; limits bind this."""
        self.fixed: Counter[tuple[str, str]] = Counter()
        """The part of `used` that is not preemptible; reservations bind this."""
        self.earmarked: Counter[tuple[str, str]] = Counter()
        """Set aside for old jobs that their own pool keeps waiting; binds the younger ones."""
        for state in view.jobs.values():
            if state.placement is not None:
                self._open(view, state)

    def verdict(self, job: Job, amounts: Amounts, *, borrow: bool = False) -> Code | None:
        """Why the pool may not take this much more, or None; `borrow` looks past the entitlement."""
        for code, used, bound in self._bounds(job, amounts, borrow=borrow):
            if used > bound:
                return code
        return None

    def overshoot(self, job: Job, amounts: Amounts) -> int:
        """How many devices the pool itself would have to give back first; 0 if none."""
        bounds = self._bounds(job, amounts, borrow=False)
        return max((used - bound for _, used, bound in bounds), default=0)

    def earmark(self, job: Job, amounts: Amounts) -> None:
        """Let no younger job of the pool take what this one waits for, if it can ever have it."""
        if any(self.earmarked[job.pool, device_type] for device_type in amounts):
            return
        for pool, device_type, amount in self._entries(job, amounts):
            if amount > self._entitled.of(pool, device_type):
                return
        for pool, device_type, amount in self._entries(job, amounts):
            self.earmarked[pool, device_type] += amount

    def binding(self, job: Job, amounts: Amounts, code: Code) -> Quantity | None:
        """The figures of the pool that binds: what it uses and what stops it."""
        for pool, device_type, amount in self._entries(job, amounts):
            quota = self._pools.pools[pool].quota(device_type)
            used, bound = self.used[pool, device_type], self._entitled.of(pool, device_type)
            if code is Code.WAITING_LIMIT:
                used = self.held[pool, device_type]
                bound = used + amount if quota.limit is None else quota.limit
            elif code is Code.WAITING_RESERVATION:
                used, bound = self.fixed[pool, device_type], quota.reservation
            if used + self.earmarked[pool, device_type] + amount > bound:
                return Quantity(pool, device_type, amount, used, bound)
        return None

    def within_reservation(self, job: Job, amounts: Amounts) -> bool:
        """Whether the pool, with this much more, would still be inside its own reservation."""
        return all(
            self.used[job.pool, device_type] + amount
            <= self._pools.pools[job.pool].quota(device_type).reservation
            for device_type, amount in amounts.items()
        )

    def excess(self, claimant: str, holder: str, device_type: str) -> int:
        """How far the branch of the tree that the holder is in, seen from the claimant, is above
        its entitlement."""
        branch = self.branch(claimant, holder)
        if branch is None:
            return 0
        return self.used[branch, device_type] - self._entitled.of(branch, device_type)

    def any_excess(self) -> bool:
        """Whether any pool uses more than its entitlement."""
        return any(used > self._entitled.of(*key) for key, used in self.used.items())

    def add(self, job: Job, amounts: Amounts, sign: int = 1) -> None:
        """Enter devices a job takes (or, with sign -1, is to give back)."""
        for pool, device_type, amount in self._entries(job, amounts):
            self.used[pool, device_type] += sign * amount
            if not job.preemptible:
                self.fixed[pool, device_type] += sign * amount
            if sign > 0:
                # What is to be given back is held until the executor says that it is done.
                self.held[pool, device_type] += amount

    def _open(self, view: View, state: JobState) -> None:
        assert state.placement is not None
        now = held_by_type(view.cluster, state.placement.slots)
        then = held_by_type(view.cluster, state.target.slots) if state.target else now
        self.add(state.job, then)
        for pool, device_type, amount in self._entries(state.job, now - then):
            self.held[pool, device_type] += amount
        if state.phase is Phase.PREEMPTING:
            self.add(state.job, then, sign=-1)

    def _bounds(self, job: Job, amounts: Amounts, *, borrow: bool) -> Iterator[tuple[Code, int, int]]:
        """Each rule as (code if broken, use with this much more, bound), the hardest first."""
        quotas = [
            (pool, kind, amount + self.earmarked[pool, kind], self._pools.pools[pool].quota(kind))
            for pool, kind, amount in self._entries(job, amounts)
        ]
        for pool, kind, amount, quota in quotas:
            if quota.limit is not None:
                yield Code.WAITING_LIMIT, self.held[pool, kind] + amount, quota.limit
        for pool, kind, amount, quota in quotas:
            if not job.preemptible and pool == job.pool:
                yield Code.WAITING_RESERVATION, self.fixed[pool, kind] + amount, quota.reservation
        for pool, kind, amount, _ in quotas:
            if not borrow:
                entitled = self._entitled.of(pool, kind)
                yield Code.WAITING_QUOTA, self.used[pool, kind] + amount, entitled

    def branch(self, claimant: str, holder: str) -> str | None:
        """The widest pool around the holder that is not also around the claimant."""
        shared = set(self._chains[claimant])
        apart = [pool for pool in self._chains[holder] if pool not in shared]
        return apart[-1] if apart else None

    def _entries(self, job: Job, amounts: Amounts) -> Iterator[tuple[str, str, int]]:
        for device_type, amount in amounts.items():
            for pool in self._chains[job.pool]:
                yield pool, device_type, amount
