"""Places of waiting jobs in the queue of their pool."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from itertools import compress
from operator import is_not

from muster.model.view import JobState, Phase, View

Key = tuple[int, float, float, int]
"""What a pool's queue is sorted by: the rank that the policy gave last, or else priority and age."""


class Queue:
    """Places by the order of the last cycle. Follows the view by what has changed: it is asked with
    every submission, and thousands may wait."""

    def __init__(self) -> None:
        self._order: tuple[int, ...] | None = None
        self._ranks: dict[int, int] = {}
        self._jobs: Mapping[int, JobState] = {}
        self._queues: dict[str, list[Key]] = {}
        """The keys of each pool's waiting jobs, in order."""
        self._keys: dict[int, tuple[str, Key]] = {}

    def place(self, number: int, view: View, order: tuple[int, ...], now: float) -> int | None:
        """Return a job's place, 1 being the next; None: it does not wait for its turn, since it runs,
        is held, or comes after a job that has not ended."""
        if self._order is not order:
            self._begin(view, order, now)
        elif self._jobs is not view.jobs:
            self._follow(view, now)
        found = self._keys.get(number)
        return None if found is None else bisect_left(self._queues[found[0]], found[1]) + 1

    def _begin(self, view: View, order: tuple[int, ...], now: float) -> None:
        """Sort all of them: the policy has ranked them."""
        self._order, self._ranks = order, {number: rank for rank, number in enumerate(order)}
        self._jobs, self._queues, self._keys = view.jobs, {}, {}
        for state in view.jobs.values():
            if _waits(state, now):
                pool, key = self._keys[state.number] = state.job.pool, self._key(state)
                self._queues.setdefault(pool, []).append(key)
        for keys in self._queues.values():
            keys.sort()

    def _follow(self, view: View, now: float) -> None:
        """Take in what has changed since."""
        old, new = self._jobs, view.jobs
        self._jobs = new
        changed = list(compress(new.values(), map(is_not, map(old.get, new), new.values())))
        gone = old.keys() - new.keys()
        self._leave(gone.union(state.number for state in changed))
        for state in changed:
            if _waits(state, now):
                pool, key = self._keys[state.number] = state.job.pool, self._key(state)
                insort(self._queues.setdefault(pool, []), key)

    def _leave(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            if (found := self._keys.pop(number, None)) is not None:
                keys = self._queues[found[0]]
                del keys[bisect_left(keys, found[1])]

    def _key(self, state: JobState) -> Key:
        rank = self._ranks.get(state.number)
        if rank is not None:
            return (0, rank, 0.0, state.number)
        return (1, -state.job.priority, state.submitted, state.number)


def _waits(state: JobState, now: float) -> bool:
    return state.phase is Phase.WAITING and state.may_start(now)
