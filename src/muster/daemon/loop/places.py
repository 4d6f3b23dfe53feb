"""Places of waiting jobs in the queue of their pool, and who waits without one."""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from math import inf

from muster.model.view import JobState, Phase

Key = tuple[int, float, float, int]
"""What a pool's queue is sorted by: the rank that the policy gave last, or else priority and age."""


class QueuePlaces:
    """The queues by the order of one cycle. Told what changes, since they are asked with every
    submission and list, and thousands may wait; sorted where a cycle has ranked them."""

    def __init__(
        self, jobs: Mapping[int, JobState], order: Iterable[int] = (), now: float = 0.0
    ) -> None:
        """`order`: jobs as the policy has ranked them."""
        self._ranks = {number: rank for rank, number in enumerate(order)}
        self._queues: dict[str, list[Key]] = {}
        """The keys of each pool's waiting jobs, in order."""
        self._keys: dict[int, tuple[str, Key]] = {}
        self.delayed: dict[int, None] = {}
        """Jobs that wait, but not for their turn: they are held, come after a job that has not ended,
        or were delayed after a loss."""
        for state in jobs.values():
            if self._enters(state, now):
                self._queues.setdefault(state.job.pool, []).append(self._key(state))
        for keys in self._queues.values():
            keys.sort()

    def place(self, number: int) -> int | None:
        """Return a job's place, 1 being the next; None: it does not wait for its turn."""
        found = self._keys.get(number)
        return None if found is None else bisect_left(self._queues[found[0]], found[1]) + 1

    def take(self, numbers: Iterable[int], jobs: Mapping[int, JobState], now: float) -> None:
        """Take in that these jobs have changed, come or gone."""
        for number in set(numbers):
            self._leave(number)
            state = jobs.get(number)
            if state is not None and self._enters(state, now):
                insort(self._queues.setdefault(state.job.pool, []), self._key(state))

    def next_start(self, jobs: Mapping[int, JobState], now: float) -> float:
        """Return when the next of the delays after losses is over."""
        ends = (jobs[number].not_before for number in self.delayed)
        return min((end for end in ends if end > now), default=inf)

    def _enters(self, state: JobState, now: float) -> bool:
        """Note a job that waits; whether it has a place."""
        if state.phase is not Phase.WAITING:
            return False
        if not state.may_start(state.submitted):
            self.delayed[state.number] = None
        if not state.may_start(now):
            return False
        self._keys[state.number] = state.job.pool, self._key(state)
        return True

    def _leave(self, number: int) -> None:
        self.delayed.pop(number, None)
        if (found := self._keys.pop(number, None)) is not None:
            keys = self._queues[found[0]]
            del keys[bisect_left(keys, found[1])]

    def _key(self, state: JobState) -> Key:
        rank = self._ranks.get(state.number)
        if rank is not None:
            return (0, rank, 0.0, state.number)
        return (1, -state.job.priority, state.submitted, state.number)
