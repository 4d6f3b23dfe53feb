"""Which planner plans for which pools."""

from collections import Counter
from collections.abc import Collection, Mapping

from muster.model.view import View

UNEVEN = 1.25
"""Times the load that the busiest planner need have, from which on pools are divided again: a planner
has to learn again what its policies should remember of the jobs of a pool."""

Parts = tuple[frozenset[str], ...]


class Division:
    """Leaf pools, each with its planner; a pool stays with its planner while the load is about even."""

    def __init__(self, planners: int) -> None:
        self._planners = planners
        self._parts: Parts = ()

    def of(self, view: View) -> Parts:
        """Return the leaf pools of each planner; there are not more parts than pools."""
        jobs = Counter(state.job.pool for state in view.jobs.values())
        loads = {leaf: 1 + jobs[leaf] for leaf in view.pools.leaves()}
        kept = _dealt(loads, min(self._planners, len(loads)), self._parts)
        fresh = _dealt(loads, min(self._planners, len(loads)))
        self._parts = kept if _busiest(loads, kept) <= UNEVEN * _busiest(loads, fresh) else fresh
        return self._parts


def _dealt(loads: Mapping[str, int], count: int, before: Parts = ()) -> Parts:
    """Deal pools to planners, the largest first to the least busy (Graham's rule: at most 4/3 of the
    best); those that have a planner keep it."""
    parts = [{leaf for leaf in part if leaf in loads} for part in before[:count]]
    parts += [set() for _ in range(count - len(parts))]
    dealt = {leaf for part in parts for leaf in part}
    for leaf in sorted(loads.keys() - dealt, key=lambda leaf: (-loads[leaf], leaf)):
        min(parts, key=lambda part: sum(loads[each] for each in part)).add(leaf)
    return tuple(frozenset(part) for part in parts)


def _busiest(loads: Mapping[str, int], parts: Collection[frozenset[str]]) -> int:
    return max(sum(loads[leaf] for leaf in part) for part in parts)
