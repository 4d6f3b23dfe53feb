"""Jobs that have ended, as notes in the store: what the next process learns from."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

import msgspec

from muster.foresight.past import PastJob
from muster.model.job import Job, Program
from muster.model.outlook import Outlook, Table
from muster.store.batch import Note
from muster.store.codec import decode, encode
from muster.store.errors import UnreadableError, UnwritableError

KIND = "past"
"""Of these notes."""
WIDEST = 64
"""Most workers whose speed is noted."""


class PastNote(msgspec.Struct, frozen=True):
    """A job that was followed to its end."""

    job: Job
    """Without its environment, which is nobody's business here."""
    submitted: float
    length: float
    """s on its gang."""
    over: bool = True
    """Whether it ended by itself."""
    left: float = 0.0
    spread: float = 0.0
    rates: tuple[float, ...] = ()
    """Work per s by number of workers, on one device type; empty: unknown."""


def note_of(past: PastJob, types: Iterable[str], now: float) -> Note | None:
    """Return a job's note; None if it cannot be written."""
    job = replace(past.job, program=Program(until=past.job.program.until), after=(), sweep=None)
    known = past.outlook
    rates: tuple[float, ...] = ()
    if known is not None:
        kind = next(iter(job.device_types or types), "")
        most = min(max(job.workers.most, 1), WIDEST)
        rates = tuple(known.speed.rate(kind, workers) for workers in range(1, most + 1))
    said = (known.left, known.spread) if known is not None else (0.0, 0.0)
    try:
        body = encode(PastNote(job, past.submitted, past.length, past.over, *said, rates), "json")
    except UnwritableError:
        return None
    return Note(KIND, str(job.number), now, body)


def past_jobs(notes: Iterable[Note]) -> Iterator[PastJob]:
    """Yield the jobs of notes; those that cannot be read are left out."""
    for note in notes:
        try:
            found = decode(note.body, PastNote, "json")
        except UnreadableError:
            continue
        outlook = Outlook(found.left, Table(found.rates), found.spread) if found.rates else None
        yield PastJob(found.job, found.submitted, found.length, found.over, outlook)
