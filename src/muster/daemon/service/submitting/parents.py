"""What a submission comes after: found when it is submitted, by number from then on."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from muster.core.state.event_errors import UnknownNameError
from muster.daemon.loop.dependents import ended_otherwise, gone
from muster.daemon.loop.state import State
from muster.daemon.service.protocol import FieldRefusedError, NotFoundError
from muster.model.job import Dependency, Job
from muster.model.renew import renewer
from muster.model.task import Fact


@dataclass(frozen=True, slots=True)
class ParentFound:
    """A job or sweep to come after."""

    number: int
    name: str
    ended: str = ""
    """How; empty: it has not."""
    sweep: bool = False


_renewed = renewer(Job)

Find = Callable[[str], Awaitable[ParentFound]]
"""Finds a job or sweep by number or name; NotFoundError if its caller has none."""


async def with_parents(jobs: Sequence[Job], find: Find) -> list[Job]:
    """Return jobs that are submitted together with the parents that were submitted before.

    FieldRefusedError for a parent that is not there, or has ended in another way than it must.
    """
    own = {job.name for job in jobs}
    return [await _with_parents(job, own, find, several=len(jobs) > 1) for job in jobs]


async def _with_parents(job: Job, own: set[str], find: Find, *, several: bool) -> Job:
    after = []
    for each in job.after:
        if several and each.job in own:
            after.append(each)
            continue
        try:
            after.append(_pinned(each, await find(each.job)))
        except (NotFoundError, ValueError) as error:
            place = f"jobs.{job.name}.after" if several else "after"
            raise FieldRefusedError(place, str(error)) from None
    return replace(job, after=tuple(after)) if after else job


def _pinned(dependency: Dependency, parent: ParentFound) -> Dependency:
    """Return a dependency on this parent; ValueError if it can no longer be met."""
    found = replace(dependency, job=parent.name, number=parent.number, sweep=parent.sweep)
    if not parent.ended:
        return found
    if not found.when.met_by(parent.ended):
        problem = f"{ended_otherwise(found, parent.ended)}, so that the job could never start"
        raise ValueError(f"{problem}; run that again first, or leave it out")
    return replace(found, met=True)


def pinned(jobs: Sequence[Job]) -> list[Dependency]:
    """Return what jobs wait for that was submitted before them."""
    return [each for job in jobs for each in job.after if each.number and not each.met]


def while_live(
    jobs: Sequence[Job], facts: list[Fact], *, view_knows: bool = True
) -> Callable[[State], list[Fact]] | None:
    """Return what makes the facts of a submission, unless something that it comes after has ended
    meanwhile; None where there is nothing to look at. `view_knows`: whether folding them looks for the
    jobs among it."""
    awaited = [each for each in pinned(jobs) if each.sweep or not view_knows]

    def made(state: State) -> list[Fact]:
        if missing := gone(state, awaited):
            raise UnknownNameError(f"{missing[0].named}, which it comes after, has ended")
        return facts

    return made if awaited else None


def numbered(jobs: Sequence[Job], first: int) -> list[Job]:
    """Return jobs of one submission, parents first, with their numbers and those of their parents."""
    numbers: dict[str, int] = {}
    found = []
    for number, job in enumerate(jobs, first):
        job = _renewed(job, number=number, name=job.name or f"job-{number}")
        numbers[job.name] = number
        found.append(replace(job, after=_after(job, numbers)) if job.after else job)
    return found


def _after(job: Job, numbers: Mapping[str, int]) -> tuple[Dependency, ...]:
    return tuple(each if each.number else replace(each, number=numbers[each.job]) for each in job.after)
