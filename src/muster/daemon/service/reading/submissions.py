"""Jobs and sweeps as they were submitted, from the journal."""

from muster.model.event import Submitted
from muster.model.job import Job
from muster.model.sweep import MemberSubmitted, Sweep, SweepSubmitted, member_job
from muster.model.task import Fact
from muster.store.store import Store


def submitted_job(store: Store, number: int) -> Job | None:
    """Return a job as submitted; None: the journal no longer has it."""
    match _first(store, number):
        case Submitted(job=job):
            return job
        case MemberSubmitted(sweep=owner):
            sweep = submitted_sweep(store, owner)
            place = None if sweep is None else sweep.place_of(number)
            return None if sweep is None or place is None else member_job(sweep, place)
    return None


def submitted_sweep(store: Store, number: int) -> Sweep | None:
    """Return a sweep as submitted; None: the journal no longer has it."""
    first = _first(store, number)
    return first.sweep if isinstance(first, SweepSubmitted) else None


def _first(store: Store, number: int) -> Fact | None:
    found = store.changes(0, number=number, limit=1)
    return found[0].fact if found else None
