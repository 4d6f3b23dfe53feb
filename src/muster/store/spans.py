"""Who held which devices when: what a picture of the past is drawn from."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, or_, select, tuple_

from muster.store import lists
from muster.store.batch import Span
from muster.store.schema import jobs, spans

_FIELDS = ("number", "began", "status", "devices", "workers", "servers", "code", "reason", "ended")
_COLUMNS = tuple(spans.c[name] for name in _FIELDS)
_DEVICES = msgspec.json.Decoder(dict[str, tuple[int, ...]])


class OwnedSpan(NamedTuple):
    """A span, and whose it is; None: its job is no longer known."""

    span: Span
    name: str | None
    user: str | None
    pool: str | None


def put(connection: Connection, made: Sequence[Span]) -> None:
    """Store spans; each replaces that of its job and beginning."""
    rows = {(each.number, each.began): _row(each) for each in made}
    lists.put(connection, spans, list(rows.values()))


def _row(span: Span) -> lists.Row:
    row = {name: getattr(span, name) for name in _FIELDS}
    return {**row, "devices": msgspec.json.encode(span.devices).decode()}


def between(
    connection: Connection,
    since: float,
    until: float,
    after: tuple[float, int] | None,
    limit: int,
) -> list[OwnedSpan]:
    """Return spans that overlap a time, by beginning; `after`: beginning and job of the last before."""
    query = select(*_COLUMNS, jobs.c.name, jobs.c.user, jobs.c.pool)
    query = query.select_from(spans.outerjoin(jobs, jobs.c.number == spans.c.number))
    wanted: list[ColumnElement[bool]] = [
        spans.c.began < until,
        or_(spans.c.ended > since, spans.c.ended.is_(None)),
    ]
    if after is not None:
        wanted.append(tuple_(spans.c.began, spans.c.number) > after)
    query = query.where(*wanted).order_by(spans.c.began, spans.c.number).limit(limit)
    return [OwnedSpan(_span(row), *row[-3:]) for row in connection.execute(query)]


def of_job(connection: Connection, number: int, limit: int) -> list[Span]:
    """Return the last spans of a job, oldest first."""
    query = select(*_COLUMNS).where(spans.c.number == number).order_by(spans.c.began.desc())
    return [_span(row) for row in connection.execute(query.limit(limit))][::-1]


def unended(connection: Connection) -> list[Span]:
    """Return the spans that have not ended."""
    query = select(*_COLUMNS).where(spans.c.ended.is_(None)).order_by(spans.c.began)
    return [_span(row) for row in connection.execute(query)]


def _span(row: Sequence[object]) -> Span:
    given = dict(zip(_FIELDS, row, strict=False))
    return Span(**{**given, "devices": _DEVICES.decode(str(given["devices"]))})  # type: ignore[arg-type]
