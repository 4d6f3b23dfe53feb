"""Lengths of jobs like a given one: by what it runs, who runs it, its size and what it asked for."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from muster.foresight.past import PastJob
from muster.foresight.survival import Seen, Survival, survival
from muster.model.job import Job
from muster.perf.learnt.lengths import FIRST

ENOUGH = 3
"""Like jobs that must have ended for a description to be believed at all."""
SHRUNK = 24.0
"""Like jobs with which a description weighs as much as all wider ones together: what few jobs have in
common is mostly chance, and their longest one says little of the next."""


@dataclass(frozen=True, slots=True)
class Alike:
    """How long a job may take, in s on its gang, and how many like it that rests on."""

    length: Survival
    jobs: int
    same: bool = False
    """Whether they run the same application or command, or asked for the same duration."""


class Likes:
    """Every past job under each of its descriptions, the narrowest first."""

    def __init__(self, past: Iterable[PastJob]) -> None:
        self._seen: defaultdict[Hashable, list[Seen]] = defaultdict(list)
        for each in past:
            if each.over or each.length > 0.0:
                for key in _descriptions(each.job):
                    self._seen[key].append(each.seen)

    def of(self, job: Job, age: float) -> Alike:
        """Return what is known of a job that has run for this many s on its gang."""
        left, found = 1.0, list[Seen]()
        jobs, same = None, False
        *narrow, widest = _descriptions(job)
        for key in narrow:
            seen = [each for each in self._seen.get(key, ()) if each.value > age]
            ended = sum(each.over for each in self._seen.get(key, ()))
            if ended < ENOUGH or not any(each.over for each in seen):
                continue
            part = left * ended / (ended + SHRUNK)
            found += _weighted(seen, part)
            left -= part
            if jobs is None:
                jobs, same = ended, key[0] == _SAME
        every = self._seen.get(widest, [])
        found += _weighted([each for each in every if each.value > age], left)
        first = 0.0 if jobs else FIRST / 2 / max(1, job.workers.gang)
        ended = sum(each.over for each in every)
        return Alike(survival(found, age, max(first, 1.0)), jobs or ended, same)


def _weighted(seen: list[Seen], part: float) -> list[Seen]:
    """Return the same, with this weight together."""
    return [Seen(each.value, each.over, part / len(seen)) for each in seen]


_SAME = "same"


def _descriptions(job: Job) -> Iterator[tuple[Hashable, ...]]:
    what, size = job.application or job.command, job.workers.gang
    if what:
        yield _SAME, what, job.user, job.pool, size, job.duration
        yield _SAME, what, size
        yield _SAME, what
    asked = "user" if job.duration is None else _SAME
    yield asked, job.user, job.pool, size, job.duration
    yield "pool", job.pool, size
    yield "size", size
    yield ()
