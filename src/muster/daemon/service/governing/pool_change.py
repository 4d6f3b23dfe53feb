"""How an administrator changes the rules of a pool."""

from dataclasses import dataclass, replace
from typing import Any

from muster.model.pool import Pool


@dataclass(frozen=True, slots=True)
class PoolRules:
    """Who may use a pool, how much, and who decides about its jobs; None: unchanged."""

    allow: tuple[str, ...] | None = None
    """Users, and Unix groups as `@group`; empty: all."""
    max_priority: int | None = None
    devices_per_user: int | None = None
    lifted: tuple[str, ...] = ()
    """Names of other rules that no longer apply."""
    policy: str | None = None
    budget: float | None = None
    aim: str | None = None

    def applied(self, pool: Pool) -> Pool:
        """Return the pool with these rules."""
        given = {
            "allow": self.allow,
            "max_priority": self.max_priority,
            "devices_per_user": self.devices_per_user,
            "policy": self.policy,
            "budget": self.budget,
            "aim": self.aim,
        }
        new: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        return replace(pool, **{**new, **dict.fromkeys(self.lifted)})
