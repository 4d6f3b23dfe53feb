"""Lengths of jobs like a given one: by what it runs, who runs it, its size and what it asked for."""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from muster.foresight.past import PastJob
from muster.foresight.survival import Seen, Survival, survival
from muster.model.job import Job
from muster.perf.learnt.lengths import FIRST

ENOUGH = 8
"""Like jobs that must have ended to be believed: fewer do not show a tenth at either end."""


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
        for key in list(_descriptions(job))[:-1]:
            seen = self._seen.get(key, ())
            ended = sum(each.over for each in seen)
            if ended >= ENOUGH and any(each.over and each.value > age for each in seen):
                return Alike(survival(seen, age), ended, key[0] == _SAME)
        seen = self._seen.get((), [])
        first = FIRST / 2 / max(1, job.workers.gang)
        return Alike(survival(seen, age, first), sum(each.over for each in seen))


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
