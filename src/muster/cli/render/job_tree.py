"""`muster ps --tree`: jobs below those they come after."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from muster.wire.api.records import JobRecord

Branch = tuple[JobRecord, str]
"""A job, and what is drawn before its name."""


def job_tree(jobs: Sequence[JobRecord]) -> list[Branch]:
    """Return the jobs as a tree, each once: below the parent that keeps it waiting, or its last."""
    known = {job.number: job for job in jobs}
    below: defaultdict[int | None, list[JobRecord]] = defaultdict(list)
    for job in sorted(jobs, key=lambda each: each.number):
        below[_parent(job, known)].append(job)
    found: list[Branch] = []
    # A stack of our own: a chain may be longer than Python recurses.
    left = [(root, "", "") for root in reversed(below[None])]
    while left:
        job, line, under = left.pop()
        found.append((job, line))
        children = below[job.number]
        for child in reversed(children):
            last = child is children[-1]
            drawn = ("└ ", "  ") if last else ("├ ", "│ ")
            left.append((child, under + drawn[0], under + drawn[1]))
    return found


def _parent(job: JobRecord, known: Mapping[int, JobRecord]) -> int | None:
    there = [each for each in job.after if each.number in known]
    awaited = [each for each in there if not each.met]
    return (awaited or there)[-1].number if there else None
