"""Live jobs by whose they are and how they stand: what lists show first, without asking the store."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge

from muster.daemon.loop.job_summaries import JobSummary, status_of
from muster.daemon.loop.state import State

Owner = tuple[str, str]
"""A user and a pool."""
Standing = tuple[Owner, str]
"""Whose a job is, and its status."""
Shown = Callable[[str, str], bool]
"""Whether jobs of a user in a pool are asked for."""


class LiveJobs:
    """The numbers of live jobs, in order. Told what changes: lists are asked for many times a second,
    and thousands may wait."""

    def __init__(self) -> None:
        self._numbers: dict[Owner, dict[str, list[int]]] = {}
        """Of each owner and status."""
        self._known: dict[int, Standing] = {}

    def take(self, standings: Iterable[tuple[int, Standing | None]]) -> None:
        """Take in how jobs stand now; None: they have ended."""
        for number, now in standings:
            before = self._known.get(number)
            if before != now:
                self._leave(number, before)
                self._enter(number, now)

    def newest(self, shown: Shown, statuses: Sequence[str], before: int | None = None) -> Iterator[int]:
        """Yield the jobs of these statuses, highest number first. `before`: only lower ones."""
        rows = [
            numbers
            for each in self._of(shown)
            for status, numbers in each.items()
            if status in statuses
        ]
        return merge(*(_downward(numbers, before) for numbers in rows), reverse=True)

    def counts(self, shown: Shown) -> Counter[str]:
        """Return the number of jobs by status."""
        found: Counter[str] = Counter()
        for each in self._of(shown):
            found.update({status: len(numbers) for status, numbers in each.items() if numbers})
        return found

    def _of(self, shown: Shown) -> Iterator[dict[str, list[int]]]:
        return (each for owner, each in self._numbers.items() if shown(*owner))

    def _enter(self, number: int, now: Standing | None) -> None:
        if now is not None:
            owner, status = self._known[number] = now
            insort(self._numbers.setdefault(owner, {}).setdefault(status, []), number)

    def _leave(self, number: int, before: Standing | None) -> None:
        if before is None:
            return
        del self._known[number]
        owner, status = before
        numbers = self._numbers[owner][status]
        del numbers[bisect_left(numbers, number)]
        if not any(self._numbers[owner].values()):
            del self._numbers[owner]


def _downward(numbers: Sequence[int], before: int | None) -> Iterator[int]:
    upto = len(numbers) if before is None else bisect_left(numbers, before)
    return (numbers[place] for place in range(upto - 1, -1, -1))


def standings(
    numbers: Iterable[int], state: State, summaries: Mapping[int, JobSummary]
) -> Iterator[tuple[int, Standing | None]]:
    """Yield how these jobs stand."""
    for number in numbers:
        live, summary = state.view.jobs.get(number), summaries.get(number)
        if live is None or summary is None:
            yield number, None
        else:
            status = status_of(summary, live.phase, state.gangs.get(number))
            yield number, ((live.job.user, live.job.pool), status)
