"""What the end of a job or sweep means for those after it: in the same turn, they may start or are
skipped."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from muster.daemon.loop.state import State
from muster.model.event import Cancelled, DependencyMet, Ended, Skipped
from muster.model.job import Dependency
from muster.model.sweep import SweepDependencyMet, SweepEnded, SweepSkipped
from muster.model.task import Fact

ENDS = (Ended, Cancelled, Skipped)
"""Facts after which nothing more happens to a job."""


@dataclass(frozen=True, slots=True)
class ParentEnd:
    """How and when a job or sweep has ended."""

    status: str
    at: float


def status_after(end: Ended | Cancelled | Skipped) -> str:
    """Return how a job has ended, as users see it."""
    if isinstance(end, Ended):
        return end.outcome.value
    return "cancelled" if isinstance(end, Cancelled) else "skipped"


def dependents(before: State, after: State, facts: Sequence[Fact]) -> list[Fact]:
    """Return what the ends among these facts mean for live jobs and sweeps."""
    ends = dict(_ends(before, after, facts))
    if not ends:
        return []
    found: list[Fact] = []
    for state in after.view.jobs.values():
        if state.job.after:
            # A job that is skipped for one of its parents no longer cares for the others.
            found += _first_skip(_meant(state.number, state.awaited, ends, DependencyMet, Skipped))
    for sweep in after.sweeps.values():
        number, awaited = sweep.sweep.number, sweep.sweep.awaited
        if awaited and not sweep.skipped:
            found += _first_skip(_meant(number, awaited, ends, SweepDependencyMet, SweepSkipped))
    return found


def _ends(before: State, after: State, facts: Sequence[Fact]) -> Iterator[tuple[int, ParentEnd]]:
    """Yield what has ended, by number."""
    for place, fact in enumerate(facts):
        if isinstance(fact, ENDS) and fact.job not in after.view.jobs:
            yield fact.job, ParentEnd(status_after(fact), fact.at)
        elif isinstance(fact, SweepEnded):
            last = before.after(facts[:place]).sweeps.get(fact.sweep)
            if last is not None:
                yield fact.sweep, ParentEnd(last.outcome, fact.at)


def _meant(
    number: int,
    awaited: Iterable[Dependency],
    ends: Mapping[int, ParentEnd],
    met: Callable[[int, int, float], Fact],
    skipped: Callable[[int, int, float, str], Fact],
) -> Iterator[Fact]:
    for each in awaited:
        end = ends.get(each.number)
        if end is None:
            continue
        if each.when.met_by(end.status):
            yield met(number, each.number, end.at)
        else:
            yield skipped(number, each.number, end.at, ended_otherwise(each, end.status))


def _first_skip(facts: Iterator[Fact]) -> list[Fact]:
    found = list(facts)
    skips = [fact for fact in found if isinstance(fact, Skipped | SweepSkipped)]
    return list(skips[:1]) or found


def gone(state: State, awaited: Iterable[Dependency]) -> list[Dependency]:
    """Return those of the jobs and sweeps to come after that are not live."""
    return [
        each for each in awaited if each.number not in (state.sweeps if each.sweep else state.view.jobs)
    ]


_ENDED = {"cancelled": "was stopped", "skipped": "was skipped"}


def ended_otherwise(dependency: Dependency, status: str) -> str:
    """Return why a job will not run: `job 3 (prep) failed`."""
    if dependency.sweep and status == "failed":
        return f"{dependency.named} has members that failed"
    return f"{dependency.named} {_ENDED.get(status, status)}"


_MUST = {"ok": "has succeeded", "any": "has ended", "failed": "has failed"}


def awaited_words(awaited: Iterable[Dependency]) -> str:
    """Return what a job waits for: `starts once job 3 (prep) has succeeded`."""
    return f"starts once {' and '.join(f'{one.named} {_MUST[one.when]}' for one in awaited)}"
