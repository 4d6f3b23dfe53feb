"""Planners in this process, one after another: what they decide is what processes would.

The simulator uses it, so that a cluster file with `planners` is simulated as its daemon decides.
"""

from collections.abc import Iterator

from muster.core.cycle.cycle_state import Rules
from muster.core.planners.delta import ViewFollower, delta
from muster.core.planners.divide import Division
from muster.core.planners.pool_planner import PoolPlanner
from muster.core.planners.proposal import CycleQuestion, PlanningRequest, Proposal
from muster.model.view import View
from muster.policy.base import Policy


class PlannersBeside:
    """A number of planners that see the same view and not each other's claims."""

    def __init__(
        self, policy: Policy, count: int, rules: Rules | None = None, *, explain: bool = True
    ) -> None:
        self._division = Division(count)
        self._planners = [PoolPlanner(policy, rules, explain=explain) for _ in range(count)]
        self._followers = [ViewFollower(place, count) for place in range(count)]
        self._last: View | None = None

    def propose(self, asked: CycleQuestion) -> list[Proposal]:
        """Return what each planner proposes."""
        return list(self._propose(asked))

    def _propose(self, asked: CycleQuestion) -> Iterator[Proposal]:
        change, self._last = delta(self._last, asked.view), asked.view
        parts = self._division.of(asked.view)
        for planner, follower, pools in zip(self._planners, self._followers, parts, strict=False):
            request = PlanningRequest(pools, asked.now, asked.entitled, asked.mood, asked.promises)
            yield planner.propose(follower.follow(change), request)
