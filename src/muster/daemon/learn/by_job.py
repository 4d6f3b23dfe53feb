"""What follows from each job of a view by itself: worked out again for those that have changed."""

from collections.abc import Callable, Container, Mapping
from itertools import compress
from operator import is_not
from typing import Generic, TypeVar

from muster.model.job import Job
from muster.model.view import JobState

V = TypeVar("V")


class ByJob(Generic[V]):
    """Follows views: thousands of jobs wait, and few of them change between two cycles."""

    def __init__(self, derive: Callable[[Job], V]) -> None:
        self._derive = derive
        self._jobs: dict[int, JobState] = {}
        self._found: dict[int, V] = {}
        self._version: object = None

    def of(
        self, jobs: Mapping[int, JobState], version: object, without: Container[int] = ()
    ) -> Mapping[int, V]:
        """Return what follows from these jobs but some. `version`: of all else that it depends on. The
        answer is good until the next call."""
        if version != self._version:
            self.clear()
            self._version = version
        for number in self._jobs.keys() - jobs.keys():
            del self._jobs[number], self._found[number]
        known = map(self._jobs.get, jobs)
        for state in [*compress(jobs.values(), map(is_not, known, jobs.values()))]:
            if state.number not in without:
                self._take(state)
        return self._found

    def meet(self, state: JobState) -> None:
        """Work it out for a new job now: many may come until all are asked for."""
        if self._version is not None:
            self._take(state)

    def clear(self) -> None:
        """Work out everything again."""
        self._jobs, self._found = {}, {}

    def _take(self, state: JobState) -> None:
        self._jobs[state.number] = state
        self._found[state.number] = self._derive(state.job)
