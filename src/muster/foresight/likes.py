"""Lengths of jobs like a given one: by what it runs, who runs it, its size and what it asked for."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from muster.foresight.past import PastJob
from muster.foresight.survival import Seen, Survival, survival
from muster.model.job import Job
from muster.perf.learnt.declared import order_of
from muster.perf.learnt.lengths import FIRST

ENOUGH = 3
"""Similar jobs that must have ended for a description to be believed at all."""
SHRUNK = 24.0
"""Similar jobs with which a description weighs as much as all wider ones together: what few jobs have
in common is mostly chance, and their longest one says little of the next."""


@dataclass(frozen=True, slots=True)
class Alike:
    """How long a job may take, in s on its gang, and how many like it that rests on."""

    length: Survival
    jobs: int
    same: bool = False
    """Whether they run the same application or command, or users said how long they take."""


@dataclass(frozen=True, slots=True)
class Description:
    """What some jobs have in common, and the s in which their lengths are counted.

    Users ask for more than their jobs take, each by a factor of their own: where durations were asked
    for, the part that jobs took of them says more than lengths do (Tsafrir et al. 2007, "Backfilling
    Using System-Generated Predictions Rather Than User Runtime Estimates").
    """

    key: Hashable
    same: bool = False
    unit: float = 1.0


class Likes:
    """Every past job under each of its descriptions, the narrowest first."""

    def __init__(self, past: Iterable[PastJob]) -> None:
        self._seen: defaultdict[Hashable, list[Seen]] = defaultdict(list)
        for each in past:
            if each.over or each.length > 0.0:
                for one in _seen_as(each.job):
                    self._seen[one.key].append(Seen(each.length / one.unit, each.over))

    def of(self, job: Job, age: float) -> Alike:
        """Return what is known of a job that has run for this many s on its gang."""
        left, found = 1.0, list[Seen]()
        jobs, same = None, False
        *narrow, widest = _descriptions(job)
        for one in narrow:
            longer, ended = self._longer(one, age)
            if ended < ENOUGH or not any(each.over for each in longer):
                continue
            part = left * ended / (ended + SHRUNK)
            found += _weighted(longer, one.unit, part)
            left -= part
            if jobs is None:
                jobs, same = ended, one.same
        longer, ended = self._longer(widest, age)
        found += _weighted(longer, widest.unit, left)
        first = 0.0 if jobs else FIRST / 2 / max(1, job.workers.gang)
        known = survival(found, age, max(first, 1.0))
        if not jobs and job.duration is None and not any(each.over for each in longer):
            return Alike(known, 0)  # it has outlived them all: what is left is a guess
        return Alike(known, jobs or ended, same if jobs else widest.same and ended >= ENOUGH)

    def _longer(self, one: Description, age: float) -> tuple[list[Seen], int]:
        """Return the jobs that took more than this many s, and how many of all have ended."""
        every = self._seen.get(one.key, ())
        longer = [each for each in every if each.value * one.unit > age]
        return longer, sum(each.over for each in every)


def _weighted(seen: list[Seen], unit: float, part: float) -> list[Seen]:
    """Return the same in s, with this weight together."""
    return [Seen(each.value * unit, each.over, part / len(seen)) for each in seen]


def _seen_as(job: Job) -> Iterator[Description]:
    """Yield what a past job is known by; those that declare nothing learn from all."""
    yield from _descriptions(job)
    if _order(job) is not None:
        yield from _same(job, None)


def _order(job: Job) -> int | None:
    """Return the order of the duration asked for, unless the user named the application: of any other
    only jobs that asked for about as much tell the length of one that asked for its own."""
    return None if job.application else order_of(job.duration)


def _same(job: Job, order: int | None) -> Iterator[Description]:
    """Yield what jobs of one application or command have in common."""
    what, size = job.application or job.command, job.workers.gang
    if what:
        yield Description(("what", what, size, order), same=True)
        yield Description(("what", what, order), same=True)


def _descriptions(job: Job) -> Iterator[Description]:
    what, size, asked = job.application or job.command, job.workers.gang, job.duration
    if what:
        yield Description(("what", what, job.user, job.pool, size, asked), same=True)
    yield from _same(job, _order(job))
    if asked is not None:
        yield Description(("asked", job.user, job.pool, size, asked), same=True)
        yield Description(("part", job.user), same=True, unit=asked)
        yield Description(("part",), same=True, unit=asked)
        return
    yield Description(("user", job.user, job.pool, size))
    yield Description(("pool", job.pool, size))
    yield Description(("size", size))
    yield Description(())
