"""Budgets: device-hours of a pool or a user in a calendar month (UTC). Used up, nothing more starts."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from muster.daemon.account.meter import HOUR
from muster.model.duration import in_hours
from muster.model.pool import PoolTree
from muster.model.view import Phase, View
from muster.store.batch import Use


class Budgets:
    """What pools and users have spent in this month, against what they may."""

    def __init__(self) -> None:
        self.of_user: Callable[[str], float | None] = lambda user: None
        """Device-hours that a user may spend in a month; None: any."""
        self.of_users: Callable[[], bool] = lambda: True
        """Whether any user has a budget."""
        self._month = 0.0
        self._users: dict[str, float] = defaultdict(float)
        self._pools: dict[str, float] = defaultdict(float)
        """Device-seconds, of leaves."""

    def restore(self, rows: Iterable[Mapping[str, Any]], now: float) -> None:
        """Begin with what was used in this month: rows by user and pool, as the store has them."""
        self._turn(now)
        for row in rows:
            self._users[row["user"]] += row["held"]
            self._pools[row["pool"]] += row["held"]

    def spend(self, uses: Iterable[Use]) -> None:
        """Count what was held in this month."""
        for use in uses:
            if use.hour * HOUR >= self._month:
                self._users[use.user] += use.held
                self._pools[use.pool] += use.held

    def used_by_pool(self, pools: PoolTree, name: str) -> float:
        """Return the device-hours of a pool and those below it in this month."""
        below = [name]
        for each in below:  # grows while it is walked
            below += pools.below[each]
        return sum(self._pools[each] for each in below) / HOUR

    def used_by_user(self, user: str) -> float:
        """Return a user's device-hours in this month."""
        return self._users[user] / HOUR

    def barred(self, view: View, now: float) -> dict[int, str]:
        """Return the waiting jobs that no budget is left for, each with why."""
        self._turn(now)
        spent = self._spent_pools(view.pools, now)
        found: dict[int, str] = {}
        if not spent and not self.of_users():
            return found
        known: dict[tuple[str, str], str] = {}
        for number, state in view.jobs.items():
            if state.phase is not Phase.WAITING:
                continue
            whose = state.job.pool, state.job.user
            if (text := known.get(whose)) is None:  # thousands may wait, of a few users
                pools = (spent[name] for name in view.pools.ancestry(whose[0]) if name in spent)
                text = known[whose] = next(pools, "") or self._spent_user(whose[1], now)
            if text:
                found[number] = text
        return found

    def _spent_pools(self, pools: PoolTree, now: float) -> dict[str, str]:
        """The pools whose budget is used up, each with that in words."""
        found = {}
        for name, pool in pools.pools.items():
            if pool.budget is not None and (used := self.used_by_pool(pools, name)) >= pool.budget:
                found[name] = _told(f"pool {name}", used, pool.budget, now, f"pool set {name} --budget")
        return found

    def _spent_user(self, user: str, now: float) -> str:
        most = self.of_user(user)
        if most is None or (used := self.used_by_user(user)) < most:
            return ""
        return _told(user, used, most, now, f"limit set {user} --device-hours")

    def _turn(self, now: float) -> None:
        """Begin a month with nothing spent."""
        month = month_of(now)
        if month != self._month:
            self._month = month
            self._users.clear()
            self._pools.clear()


def month_of(at: float) -> float:
    """Return when the month of a moment began, in s."""
    day = datetime.fromtimestamp(at, UTC)
    return datetime(day.year, day.month, 1, tzinfo=UTC).timestamp()


def next_month(at: float) -> float:
    """Return when the month after that of a moment begins, in s: budgets renew."""
    day = datetime.fromtimestamp(at, UTC)
    return datetime(day.year + day.month // 12, day.month % 12 + 1, 1, tzinfo=UTC).timestamp()


def _told(who: str, used: float, most: float, now: float, raise_it: str) -> str:
    day, first = datetime.fromtimestamp(now, UTC), datetime.fromtimestamp(next_month(now), UTC)
    return (
        f"{who} has used {in_hours(used)} of {most:,g} device-hours in {day:%B}; it may start on "
        f"{first:%-d %B}, or when an administrator raises the budget (muster {raise_it})"
    )
