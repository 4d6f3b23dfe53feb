"""Which task a visit is to, and whose jobs may be visited."""

from collections.abc import Iterable, Sequence

from muster.daemon.gang.state import GangState
from muster.daemon.service.protocol import Caller, ConflictError, ForbiddenError, NotFoundError
from muster.model.job import Role
from muster.model.task import TaskOrdered
from muster.store.batch import Journalled
from muster.wire.api.records import OVER, JobRecord
from muster.wire.visits.visits import Visit, VisitKind

FOR_FILES = (VisitKind.FETCH, VisitKind.STORE, VisitKind.LIST, VisitKind.READ)
"""Visits that a task may have after its end, as long as its files are kept."""


def owners_only(caller: Caller, record: JobRecord) -> None:
    """Refuse who may see a job, as one of a shared pool, but not what is in it."""
    if not caller.admin and record.user != caller.user:
        raise ForbiddenError(
            f"job {record.number} ({record.name}) belongs to {record.user}; only its owner and "
            "administrators may enter it"
        )


def visited_task(
    record: JobRecord,
    gang: GangState | None,
    entries: Sequence[Journalled],
    visit: Visit,
    task: str | None,
    rank: int | None,
) -> TaskOrdered:
    """Return the task that a visit is to: by name, by rank, or the first worker."""
    live = gang.tasks if gang is not None else ()
    if not live and visit.kind not in FOR_FILES:
        raise ConflictError(f"job {record.number} ({record.name}) {_standing(record)}")
    candidates = list(live) or [e.fact for e in entries if isinstance(e.fact, TaskOrdered)]
    found = _chosen(candidates, task, rank)
    if found is None:
        wanted = task or f"worker of rank {rank or 0}"
        names = ", ".join(each.task.name for each in candidates[:8]) or "none"
        raise NotFoundError(
            f"job {record.number} ({record.name}) has no {wanted}; its tasks: {names} "
            f"(muster show {record.number})"
        )
    return found


def _chosen(
    candidates: Iterable[TaskOrdered], task: str | None, rank: int | None
) -> TaskOrdered | None:
    """Of several with one name the latest: an earlier one has ended."""
    latest = {each.task.name: each for each in sorted(candidates, key=lambda each: each.task)}
    if task is not None:
        return latest.get(task)
    workers = sorted(
        (each for each in latest.values() if each.task.role is Role.WORKER),
        key=lambda each: each.task.index,
    )
    return workers[rank or 0] if (rank or 0) < len(workers) else None


def _standing(record: JobRecord) -> str:
    """Why nobody can get in, and what to do instead."""
    if record.status in OVER:
        return f"has ended ({record.status}); what it printed: muster logs {record.number}"
    reason = f", {record.reason}" if record.reason else ""
    return f"has no task now: it is {record.status}{reason}"
