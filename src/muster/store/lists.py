"""Tables beside the journal: rows of jobs, keys, predictions and notes, and pages of jobs."""

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    delete,
    func,
    insert,
    or_,
    select,
)

from muster.model.event import Submitted
from muster.model.sweep import MemberSubmitted
from muster.model.task import Fact, job_of
from muster.store.codec import decode_record, encode_record
from muster.store.job_filter import JobFilter, conditions
from muster.store.schema import jobs, notes
from muster.store.upsert import upsert_of
from muster.wire.api.job_records import JobRecord, PredictionRecord

Row = dict[str, Any]

STATEMENTS = 256
"""Statements kept: making one takes as long as running it."""


def job_rows(records: Sequence[JobRecord]) -> list[Row]:
    """Return rows of jobs, the last record of each."""
    return list(
        {
            record.number: {
                "number": record.number,
                "name": record.name,
                "user": record.user,
                "pool": record.pool,
                "status": record.status,
                "body": encode_record(record),
                "submitted": record.submitted,
            }
            for record in records
        }.values()
    )


def label_rows(facts: Sequence[Fact], records: Sequence[JobRecord]) -> list[Row]:
    """Return rows of the labels of the jobs that these facts submit."""
    new = {job_of(fact) for fact in facts if isinstance(fact, Submitted | MemberSubmitted)}
    return [
        {"number": record.number, "key": key, "value": value}
        for record in records
        if record.number in new
        for key, value in record.labels.items()
    ]


def prediction_rows(made: Sequence[tuple[int, PredictionRecord]]) -> list[Row]:
    """Return rows of predictions."""
    return [
        {"number": number, "what": each.what, "at": each.at, "body": encode_record(each)}
        for number, each in made
    ]


def put(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert rows, replacing those with the same primary key."""
    if rows:
        connection.execute(_upsert(table, connection.dialect.name), rows)


@cache
def _upsert(table: Table, dialect: str) -> Insert:
    """Return the statement of `put`: making it takes longer than running it."""
    new = upsert_of(dialect, table)
    changed = {c.name: new.excluded[c.name] for c in table.columns if not c.primary_key}
    key = [column.name for column in table.primary_key]
    statement: Insert = new.on_conflict_do_update(index_elements=key, set_=changed)
    return statement


def add(connection: Connection, table: Table, rows: Sequence[Row]) -> None:
    """Insert new rows."""
    if rows:
        connection.execute(insert(table), rows)


def page(connection: Connection, statement: Select[Any]) -> list[JobRecord]:
    """Return a page of jobs, highest number first."""
    found = connection.scalar(statement)
    records = decode_record(f"[{found or ''}]", list[JobRecord])
    return sorted(records, key=lambda record: record.number, reverse=True)


@lru_cache(STATEMENTS)
def page_of(
    dialect: str, wanted: JobFilter, statuses: tuple[str, ...], before: int | None, limit: int
) -> Select[Any]:
    """Return the statement of a page; one asked for again and again is made once."""
    found = conditions(dialect, wanted)
    if statuses:
        found.append(jobs.c.status.in_(statuses))
    if before is not None:
        found.append(jobs.c.number < before)
    return newest(found, wanted.users_or_pools, limit)


def counts(connection: Connection, wanted: JobFilter, statuses: tuple[str, ...] = ()) -> dict[str, int]:
    """Return the number of these jobs by status; `statuses`: only of these."""
    found: Counter[str] = Counter()
    for way in counts_of(connection.dialect.name, wanted, statuses):
        found.update({row[0]: row[1] for row in connection.execute(way)})
    return dict(found)


@lru_cache(STATEMENTS)
def counts_of(
    dialect: str, wanted: JobFilter, statuses: tuple[str, ...] = ()
) -> tuple[Select[Any], ...]:
    """Return the statements that count these jobs by status: one for each index."""
    query = select(jobs.c.status, func.count()).group_by(jobs.c.status)
    query = query.where(*conditions(dialect, wanted, counting=True))
    if statuses:
        query = query.where(jobs.c.status.in_(statuses))
    if wanted.users_or_pools is None:
        return (query,)
    mine, shared = wanted.users_or_pools
    own = query.where(jobs.c.user == mine)
    if not shared:
        return (own,)
    return own, query.where(jobs.c.pool.in_(shared), jobs.c.user != mine)


def newest(
    wanted: Sequence[ColumnElement[bool]],
    users_or_pools: tuple[str, tuple[str, ...]] | None,
    limit: int,
) -> Select[Any]:
    """Return the statement of a page of these jobs."""
    ways = [wanted]
    if users_or_pools is not None:
        mine, shared = users_or_pools
        ways = [[*wanted, jobs.c.user == mine]]
        if shared:
            ways.append([*wanted, jobs.c.pool.in_(shared)])
    query = select(jobs.c.body).where(or_(*(_among(way, limit) for way in ways)))
    rows = query.order_by(jobs.c.number.desc()).limit(limit).subquery()
    # As one row: between any two rows, this thread might have to wait for a busy one.
    return select(func.aggregate_strings(rows.c.body, ","))


def _among(wanted: Sequence[ColumnElement[bool]], limit: int) -> ColumnElement[bool]:
    """Whether a job is among the newest of some. Their numbers come from one index, in order; only
    rows of the page are read whole."""
    newest = select(jobs.c.number).where(*wanted).order_by(jobs.c.number.desc()).limit(limit)
    return jobs.c.number.in_(newest.scalar_subquery())


def prune_notes(connection: Connection, kind: str, keep: int) -> None:
    """Remove all but the last notes of a kind."""
    query = select(notes.c.id).where(notes.c.kind == kind).order_by(notes.c.id.desc())
    bound = connection.scalar(query.offset(keep).limit(1))
    if bound is not None:
        connection.execute(delete(notes).where(notes.c.kind == kind, notes.c.id <= bound))
