"""What is listed and looked up beside the journal: jobs, keys, predictions, notes."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Table, delete, func, insert, or_, select
from sqlalchemy.dialects import postgresql, sqlite

from muster.store.batch import Note
from muster.store.codec import decode_record, encode_record
from muster.store.schema import jobs, keys, notes, predictions
from muster.wire.records import JobRecord, PredictionRecord

Row = dict[str, Any]


def job_rows(records: Sequence[JobRecord]) -> list[Row]:
    """Rows of the table of jobs; of several records of one job the last."""
    return list(
        {
            record.number: {
                "number": record.number,
                "name": record.name,
                "user": record.user,
                "pool": record.pool,
                "status": record.status,
                "body": encode_record(record),
            }
            for record in records
        }.values()
    )


def key_rows(given: Sequence[tuple[str, str, int]]) -> list[Row]:
    """Rows of the table of keys."""
    return [{"user": user, "key": key, "number": number} for user, key, number in given]


def prediction_rows(made: Sequence[tuple[int, PredictionRecord]]) -> list[Row]:
    """Rows of the table of predictions."""
    return [
        {"number": number, "what": each.what, "at": each.at, "body": encode_record(each)}
        for number, each in made
    ]


def note_rows(taken: Sequence[Note]) -> list[Row]:
    """Rows of the table of notes."""
    return [asdict(note) for note in taken]


def put(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, or replace those with the same primary key."""
    if not rows:
        return
    new = (sqlite if connection.dialect.name == "sqlite" else postgresql).insert(table)
    changed = {c.name: new.excluded[c.name] for c in table.columns if not c.primary_key}
    key = [column.name for column in table.primary_key]
    connection.execute(new.on_conflict_do_update(index_elements=key, set_=changed), rows)


def add(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows that are not there."""
    if rows:
        connection.execute(insert(table), rows)


def page(
    connection: Connection,
    *,
    statuses: Sequence[str],
    user: str | None,
    users_or_pools: tuple[str, tuple[str, ...]] | None,
    pool: str | None,
    name: str | None,
    before: int | None,
    limit: int,
) -> list[JobRecord]:
    """Some jobs, highest number first."""
    wanted = [
        column == value
        for column, value in ((jobs.c.user, user), (jobs.c.pool, pool), (jobs.c.name, name))
        if value is not None
    ]
    if statuses:
        wanted.append(jobs.c.status.in_(statuses))
    if before is not None:
        wanted.append(jobs.c.number < before)
    ways: list[list[ColumnElement[bool]]] = [wanted]
    if users_or_pools is not None:
        mine, shared = users_or_pools
        ways = [[*wanted, jobs.c.user == mine]]
        if shared:
            ways.append([*wanted, jobs.c.pool.in_(shared)])
    query = select(jobs.c.body).where(or_(*(_among(way, limit) for way in ways)))
    rows = query.order_by(jobs.c.number.desc()).limit(limit).subquery()
    # As one row: between any two, this thread would have to wait for one that computes.
    found = connection.scalar(select(func.aggregate_strings(rows.c.body, ",")))
    records = decode_record(f"[{found or ''}]", list[JobRecord])
    return sorted(records, key=lambda record: record.number, reverse=True)


def _among(wanted: Sequence[ColumnElement[bool]], limit: int) -> ColumnElement[bool]:
    """Whether a job is among the newest of some. Their numbers come from one index alone, in order;
    only rows of the page are read whole."""
    newest = select(jobs.c.number).where(*wanted).order_by(jobs.c.number.desc()).limit(limit)
    return jobs.c.number.in_(newest.scalar_subquery())


def one(connection: Connection, query: Select[Any]) -> JobRecord | None:
    """The job of a query for a body."""
    body = connection.scalar(query.limit(1))
    return None if body is None else decode_record(body, JobRecord)


def count(connection: Connection) -> dict[str, int]:
    """Jobs by status."""
    query = select(jobs.c.status, func.count()).group_by(jobs.c.status)
    return {row[0]: row[1] for row in connection.execute(query)}


def key_of(connection: Connection, user: str, key: str) -> int | None:
    """The number of the job that a user submitted with this key."""
    return connection.scalar(select(keys.c.number).where(keys.c.user == user, keys.c.key == key))


def predictions_of(connection: Connection, number: int) -> list[PredictionRecord]:
    """The predictions about a job, oldest first."""
    query = select(predictions.c.body).where(predictions.c.number == number)
    found = connection.scalars(query.order_by(predictions.c.at, predictions.c.what))
    return [decode_record(body, PredictionRecord) for body in found]


def newest_notes(connection: Connection, kind: str, limit: int) -> list[Note]:
    """The last notes of a kind, oldest first."""
    query = select(notes.c.kind, notes.c.key, notes.c.at, notes.c.body).where(notes.c.kind == kind)
    found = connection.execute(query.order_by(notes.c.id.desc()).limit(limit)).all()
    return [Note(*row) for row in reversed(found)]


def prune_notes(connection: Connection, kind: str, keep: int) -> None:
    """Remove all but the last notes of a kind."""
    query = select(notes.c.id).where(notes.c.kind == kind).order_by(notes.c.id.desc())
    bound = connection.scalar(query.offset(keep).limit(1))
    if bound is not None:
        connection.execute(delete(notes).where(notes.c.kind == kind, notes.c.id <= bound))
