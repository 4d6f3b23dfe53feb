"""Jobs of a trace that come after others.

A simulated job that is admitted succeeds, so whether one can ever start is known when it is submitted.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from muster.model.event import DependencyMet, Ended
from muster.model.job import Dependency, Job, When


class TraceParents:
    """Who comes after whom, by the names of a trace."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """Of the jobs admitted so far."""
        self._over: set[int] = set()
        self._children: defaultdict[int, list[int]] = defaultdict(list)
        """Jobs that wait, by what they wait for."""

    def problem(self, job: Job) -> str:
        """Return why a job can never start after those it names; empty if it can."""
        for each in job.after:
            if each.job not in self._numbers:
                return f"comes after {each.job!r}, which was refused or is not above it"
            if each.when is When.FAILED:
                return f"comes after a failure of {each.job!r}, and simulated jobs do not fail"
        return ""

    def admitted(self, job: Job) -> Job:
        """Note an admitted job; return it with the numbers of those that it comes after."""
        self._numbers[job.name] = job.number
        if not job.after:
            return job
        after = tuple(self._pinned(each) for each in job.after)
        for each in after:
            if not each.met:
                self._children[each.number].append(job.number)
        return replace(job, after=after)

    def resume(self, job: Job) -> None:
        """Note a job that is live already."""
        self._numbers[job.name] = job.number
        for each in job.after:
            if not each.met:
                self._children[each.number].append(job.number)

    def _pinned(self, dependency: Dependency) -> Dependency:
        number = self._numbers[dependency.job]
        return replace(dependency, number=number, met=number in self._over)

    def met(self, ends: Iterable[Ended]) -> list[DependencyMet]:
        """Return what these ends mean for the jobs that wait for them."""
        found = []
        for end in ends:
            self._over.add(end.job)
            children = self._children.pop(end.job, ())
            found += [DependencyMet(child, end.job, end.at) for child in children]
        return found

    @property
    def waiting(self) -> bool:
        """Whether any job waits for another."""
        return bool(self._children)
