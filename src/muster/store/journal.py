"""The journal: facts in the order in which they happened, numbered without a gap."""

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select

from muster.model.task import Fact, job_of
from muster.store.batch import Journalled
from muster.store.codec import decode_fact, encode_fact
from muster.store.schema import jobs, journal

PRUNED_AT_ONCE = 50_000
"""Rows that one compaction removes at most: some 0.1 s, for which writes wait."""

NewFact = tuple[Fact, str]
"""A fact, and its body for the journal."""


def prepared(facts: Iterable[Fact]) -> list[NewFact]:
    """Facts with their bodies: what cannot be written is found before anything is."""
    return [(fact, encode_fact(fact)) for fact in facts]


def append(connection: Connection, facts: Sequence[NewFact]) -> tuple[int, int]:
    """Add facts; the numbers of the first and the last one."""
    before = last(connection)
    if facts:
        rows = [
            {
                "seq": seq,
                "at": fact.at,
                "kind": type(fact).__name__,
                "number": job_of(fact),
                "body": body,
            }
            for seq, (fact, body) in enumerate(facts, before + 1)
        ]
        connection.execute(insert(journal), rows)
    return before + 1, before + len(facts)


def last(connection: Connection) -> int:
    """The number of the last fact; 0: there is none. Pruning never takes the last one."""
    return connection.scalar(select(func.max(journal.c.seq))) or 0


def read(connection: Connection, after: int, limit: int) -> list[Journalled]:
    """So many facts after a number."""
    query = select(journal.c.seq, journal.c.kind, journal.c.body).where(journal.c.seq > after)
    return _entries(connection.execute(query.order_by(journal.c.seq).limit(limit)))


def changes(
    connection: Connection, after: int | None, number: int | None, limit: int
) -> list[Journalled]:
    """Facts with their jobs' names, oldest first: the first after a number, or the last of all."""
    named = journal.outerjoin(jobs, jobs.c.number == journal.c.number)
    query = select(journal.c.seq, journal.c.kind, journal.c.body, jobs.c.name).select_from(named)
    if number is not None:
        query = query.where(journal.c.number == number)
    if after is None:
        latest = query.order_by(journal.c.seq.desc()).limit(limit)
        return _entries(connection.execute(latest))[::-1]
    query = query.where(journal.c.seq > after).order_by(journal.c.seq).limit(limit)
    return _entries(connection.execute(query))


def prune(connection: Connection, upto: int) -> None:
    """Remove the oldest facts, up to this number."""
    first = connection.scalar(select(func.min(journal.c.seq)))
    if first is not None and first <= upto:
        bound = min(upto, first + PRUNED_AT_ONCE - 1)
        connection.execute(delete(journal).where(journal.c.seq <= bound))


def _entries(rows: Iterable[Any]) -> list[Journalled]:
    return [Journalled(seq, decode_fact(kind, body), *name) for seq, kind, body, *name in rows]
