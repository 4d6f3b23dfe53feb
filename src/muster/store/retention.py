"""Removes what is about jobs that have been over for long; the journal has a limit of its own."""

from collections.abc import Iterable

from sqlalchemy import Connection, delete, exists, func, select

from muster.store import curves, lists
from muster.store.codec import decode_record
from muster.store.schema import curves as curve_rows
from muster.store.schema import (
    forecasts,
    jobs,
    keys,
    labels,
    predictions,
    settings,
    spans,
    sweeps,
)
from muster.wire.api.job_records import OVER, JobRecord

AT_ONCE = 500
"""Jobs removed or thinned in one transaction: writes wait some 50 ms."""
THINNED = "curves thinned"
"""The setting with the submission of the last job whose curves were thinned for their age."""

_ABOUT_JOBS = (labels, predictions, forecasts, curve_rows, spans, keys, jobs)


def drop_jobs(connection: Connection, before: float) -> int:
    """Remove jobs that ended before a moment, and all that is told of them; return how many.

    The newest job stays, whatever its age: numbers go on from it.
    """
    newest = connection.scalar(select(func.max(jobs.c.number))) or 0
    old = [number for number in _ended(connection, before) if number != newest]
    for table in _ABOUT_JOBS if old else ():
        connection.execute(delete(table).where(table.c.number.in_(old)))
    if old:
        _drop_sweeps(connection, max(old))
    return len(old)


def _ended(connection: Connection, before: float) -> list[int]:
    """Return the oldest jobs that ended before a moment, at most `AT_ONCE`."""
    query = select(jobs.c.number, jobs.c.body)
    query = query.where(jobs.c.submitted < before, jobs.c.status.in_(OVER))
    rows = connection.execute(query.order_by(jobs.c.submitted).limit(AT_ONCE))
    return [number for number, body in rows if _end(body) < before]


def _end(body: str) -> float:
    record = decode_record(body, JobRecord)
    return record.submitted if record.ended is None else record.ended


def _drop_sweeps(connection: Connection, upto: int) -> None:
    """Remove sweeps of which no member is left; the last stays, as numbers go on from it."""
    own = (jobs.c.number > sweeps.c.number) & (jobs.c.number <= sweeps.c.number + sweeps.c.members)
    last = select(func.max(sweeps.c.number)).scalar_subquery()
    gone = sweeps.c.number + sweeps.c.members <= upto, ~exists().where(own), sweeps.c.number != last
    numbers = connection.scalars(select(sweeps.c.number).where(*gone)).all()
    for table in (keys, sweeps) if numbers else ():
        connection.execute(delete(table).where(table.c.number.in_(numbers)))


def thin_curves(connection: Connection, before: float) -> int:
    """Thin the curves of jobs submitted before a moment that are over; return how many were looked at.

    Each is looked at once, in the order of submission.
    """
    done = connection.scalar(select(settings.c.value).where(settings.c.key == THINNED))
    query = select(jobs.c.number, jobs.c.submitted, jobs.c.status)
    query = query.where(jobs.c.submitted > float(done or 0.0), jobs.c.submitted < before)
    found = connection.execute(query.order_by(jobs.c.submitted).limit(AT_ONCE)).all()
    for number in _over(found):
        curves.thin(connection, number, curves.OLD)
    if found:
        last = {"key": THINNED, "value": repr(found[-1].submitted)}
        lists.put(connection, settings, [last])
    return len(found)


def _over(rows: Iterable[tuple[int, float, str]]) -> Iterable[int]:
    return (number for number, _, status in rows if status in OVER)
