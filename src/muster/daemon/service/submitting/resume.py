"""Which checkpoints a job is to start from: `resume_from` of a submission, as a folder or a URL."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from muster.daemon.service.protocol import RefusedError
from muster.daemon.service.reading.submissions import submitted_job
from muster.model.event import Checkpointed
from muster.model.job import Job
from muster.store.store import Store
from muster.wire.api.records import JobRecord

LAST = "last"
"""The latest job of the same name that has checkpoints."""
ELSEWHERE = "elsewhere"
"""Link of the runtime to the folder of a training that names one outside of the job's own."""
LOOKED_AT = 100
"""Earlier jobs of the name that are looked at for checkpoints."""

_CHECKPOINT = re.compile(r"step-\d{12}(\.c\d+)?\.pt")
_OWN = re.compile(r"(\d{1,18})-")

FolderOf = Callable[[Job], Path]
"""A job's own folder."""


def resume_place(job: Job, store: Store, folder_of: FolderOf) -> str:
    """Return where a job resumes from, empty if nowhere; `RefusedError` if it may not or cannot.

    Only its user's own jobs are found: a checkpoint is as private as what it was trained on.
    """
    asked = job.program.resume_from
    if not asked or "://" in asked:  # what a URL's owner allows is not ours to say
        return asked
    if "/" in asked:
        _refuse_others(job, Path(asked), store, folder_of)
        return asked
    if asked == LAST:
        found = _last(job, store, folder_of)
        if found is None:
            raise RefusedError(
                f"resume_from: no earlier job of {job.user} named {job.name!r} has checkpoints; "
                "give a job's number or a path"
            )
        return found
    record = _named(asked, job.user, store)
    if record is None:
        raise RefusedError(
            f"resume_from: {job.user} has no job {asked!r}; see muster ps -a, or give a path with a /"
        )
    place = _saved_place(record, store, folder_of)
    if place is None:
        raise RefusedError(f"resume_from: job {record.number} ({record.name}) has no checkpoints")
    return place


def _named(asked: str, user: str, store: Store) -> JobRecord | None:
    """Find a job of the user by number or name, the newest of that name."""
    if asked.isascii() and asked.isdigit() and len(asked) < 19:
        record = store.job(int(asked))
        return record if record is not None and record.user == user else None
    return next(iter(store.jobs(user=user, name=asked, limit=1)), None)


def _last(job: Job, store: Store, folder_of: FolderOf) -> str | None:
    earlier = store.jobs(user=job.user, name=job.name, limit=LOOKED_AT)
    places = (_saved_place(record, store, folder_of) for record in earlier)
    return next((place for place in places if place is not None), None)


def _saved_place(record: JobRecord, store: Store, folder_of: FolderOf) -> str | None:
    """Return where a job has checkpoints; None: it has none."""
    job = submitted_job(store, record.number)
    asked = job.program.checkpoint if job is not None else ""
    if "://" in asked:  # only its user can read there; the daemon knows whether it has told of one
        return asked if _has_told(record, store) else None
    own = folder_of(Job(record.name, user=record.user, number=record.number)) / "checkpoint"
    folder = Path(asked) if asked else own
    return str(folder) if has_checkpoints(folder) else None


def _has_told(record: JobRecord, store: Store) -> bool:
    after = 0
    while some := store.changes(after, number=record.number):
        if any(isinstance(entry.fact, Checkpointed) for entry in some):
            return True
        after = some[-1].seq
    return False


def has_checkpoints(folder: Path) -> bool:
    """Whether a training of the runtime has written checkpoints there."""
    return any(_CHECKPOINT.fullmatch(name) or name == ELSEWHERE for name in _names_below(folder))


def _names_below(folder: Path) -> Iterator[str]:
    # Links are not followed: they are the user's, and the daemon may see more than the user.
    for _, folders, files in os.walk(folder):
        yield from (*folders, *files)


def _refuse_others(job: Job, asked: Path, store: Store, folder_of: FolderOf) -> None:
    """Refuse a path into the folder of another user's job."""
    jobs = folder_of(job).parent.resolve()
    where = asked.resolve()
    found = _OWN.match(where.relative_to(jobs).parts[0]) if jobs in where.parents else None
    record = store.job(int(found[1])) if found else None
    if record is not None and record.user != job.user:
        raise RefusedError(f"resume_from: {asked} belongs to another user's job")
