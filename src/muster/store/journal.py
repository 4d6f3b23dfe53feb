"""The journal: facts in order, numbered without gaps."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, insert, or_, select

from muster.model.task import Fact, job_of
from muster.store.batch import Journalled
from muster.store.codec import decode_fact, encode_fact
from muster.store.schema import jobs, journal

STATEMENTS = 256
"""Statements kept: one for each caller who follows."""
PRUNED_AT_ONCE = 50_000
"""Rows removed at once: writes wait some 0.1 s."""

_APPEND, _LAST = insert(journal), select(func.max(journal.c.seq))
"""Made once: making a statement takes longer than running it."""

NewFact = tuple[Fact, str]
"""A fact and its encoded body."""


def prepared(facts: Iterable[Fact]) -> list[NewFact]:
    """Encode facts, so that errors show before anything is written."""
    return [(fact, encode_fact(fact)) for fact in facts]


def append(connection: Connection, facts: Sequence[NewFact]) -> tuple[int, int]:
    """Append facts; return the numbers of the first and the last."""
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
        connection.execute(_APPEND, rows)
    return before + 1, before + len(facts)


def last(connection: Connection) -> int:
    """Return the number of the last fact, which is never pruned; 0: none."""
    return connection.scalar(_LAST) or 0


def read(connection: Connection, after: int, limit: int) -> list[Journalled]:
    """Return up to `limit` facts after a number."""
    query = select(journal.c.seq, journal.c.kind, journal.c.body).where(journal.c.seq > after)
    return _entries(connection.execute(query.order_by(journal.c.seq).limit(limit)))


def read_kinds(
    connection: Connection, kinds: Sequence[str], after: int, upto: int, limit: int
) -> list[Journalled]:
    """Return up to `limit` facts of some kinds, after a number and up to another: those of a flood are
    not decoded for the few among them that are looked for."""
    query = select(journal.c.seq, journal.c.kind, journal.c.body)
    query = query.where(journal.c.seq > after, journal.c.seq <= upto, journal.c.kind.in_(kinds))
    return _entries(connection.execute(query.order_by(journal.c.seq).limit(limit)))


def changes(
    connection: Connection,
    after: int | None,
    number: int | None,
    limit: int,
    users_or_pools: tuple[str, tuple[str, ...]] | None = None,
) -> list[Journalled]:
    """Return facts with job names, oldest first: the first after a number, or the last of all.

    Those of others are left out here and not later, so that a full page of theirs hides nothing.
    """
    query = _changes(number is not None, after is None, users_or_pools)
    wanted = {"of_number": number, "after": after, "most": limit}
    given = {name: value for name, value in wanted.items() if value is not None}
    found = _entries(connection.execute(query, given))
    return found[::-1] if after is None else found


@lru_cache(STATEMENTS)
def _changes(
    of_job: bool, latest: bool, users_or_pools: tuple[str, tuple[str, ...]] | None
) -> Select[Any]:
    """Return the statement of `changes`: whoever follows the journal asks again and again."""
    named = journal.outerjoin(jobs, jobs.c.number == journal.c.number)
    query = select(journal.c.seq, journal.c.kind, journal.c.body, jobs.c.name).select_from(named)
    if of_job:
        query = query.where(journal.c.number == bindparam("of_number"))
    if users_or_pools is not None:
        user, pools = users_or_pools
        query = query.where(or_(jobs.c.user == user, jobs.c.pool.in_(pools)))
    query = query.limit(bindparam("most"))
    if latest:
        return query.order_by(journal.c.seq.desc())
    return query.where(journal.c.seq > bindparam("after")).order_by(journal.c.seq)


def prune(connection: Connection, upto: int) -> None:
    """Remove the oldest facts, up to this number."""
    first = connection.scalar(select(func.min(journal.c.seq)))
    if first is not None and first <= upto:
        bound = min(upto, first + PRUNED_AT_ONCE - 1)
        connection.execute(delete(journal).where(journal.c.seq <= bound))


def _entries(rows: Iterable[Any]) -> list[Journalled]:
    return [Journalled(seq, decode_fact(kind, body), *name) for seq, kind, body, *name in rows]
