"""The journal: facts in the order in which they happened, numbered without a gap."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select

from muster.model.event import NodeAdded, NodeDraining, NodeLost, NodeReturned, PoolsSet, Submitted
from muster.model.task import Fact, PolicySet, TaskEnded, TaskOrdered
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
        numbers = _numbers(connection, [fact for fact, _ in facts])
        rows = [
            {
                "seq": seq,
                "at": fact.at,
                "kind": type(fact).__name__,
                "job": job_of(fact),
                "number": number,
                "body": body,
            }
            for seq, ((fact, body), number) in enumerate(zip(facts, numbers, strict=True), before + 1)
        ]
        connection.execute(insert(journal), rows)
    return before + 1, before + len(facts)


def last(connection: Connection) -> int:
    """The number of the last fact; 0: there is none. Pruning never takes the last one."""
    return connection.scalar(select(func.max(journal.c.seq))) or 0


def read(connection: Connection, after: int, limit: int) -> list[Journalled]:
    """So many facts after a number."""
    return _entries(connection.execute(_rows().where(journal.c.seq > after).limit(limit)))


def changes(
    connection: Connection, after: int | None, number: int | None, job: str | None, limit: int
) -> list[Journalled]:
    """Facts, oldest first: the first ones after a number, or the last ones of all."""
    query = _rows() if after is not None else _rows(newest_first=True)
    if after is not None:
        query = query.where(journal.c.seq > after)
    if number is not None:
        query = query.where(journal.c.number == number)
    if job is not None:
        query = query.where(journal.c.job == job)
    found = _entries(connection.execute(query.limit(limit)))
    return found if after is not None else found[::-1]


def prune(connection: Connection, upto: int) -> None:
    """Remove the oldest facts, up to this number."""
    first = connection.scalar(select(func.min(journal.c.seq)))
    if first is not None and first <= upto:
        bound = min(upto, first + PRUNED_AT_ONCE - 1)
        connection.execute(delete(journal).where(journal.c.seq <= bound))


def job_of(fact: Fact) -> str | None:
    """The name of the job that a fact is about; None: it is about none."""
    match fact:
        case Submitted(job=job):
            return job.name
        case NodeAdded() | NodeLost() | NodeReturned() | NodeDraining() | PoolsSet() | PolicySet():
            return None
        case _:
            return fact.job


def _numbers(connection: Connection, facts: Sequence[Fact]) -> Iterator[int | None]:
    """The number of the job that each fact is about. A name is used again once its job is over, so a
    name means the job last submitted under it: earlier in these facts, or stored before."""
    latest = _latest(connection, {job_of(fact) for fact in facts} - {None})
    for fact in facts:
        match fact:
            case Submitted(job=job):
                latest[job.name] = job.number or None
                yield latest[job.name]
            case TaskOrdered(task=task):
                yield task.number
            case TaskEnded(exited=exited):
                yield exited.task.number
            case _:
                yield latest.get(job_of(fact))


def _latest(connection: Connection, names: set[str | None]) -> dict[str | None, int | None]:
    if not names:
        return {}
    query = select(jobs.c.name, func.max(jobs.c.number)).where(jobs.c.name.in_(names))
    return {row[0]: row[1] for row in connection.execute(query.group_by(jobs.c.name))}


def _rows(*, newest_first: bool = False) -> Select[Any]:
    order = journal.c.seq.desc() if newest_first else journal.c.seq
    return select(journal.c.seq, journal.c.kind, journal.c.body).order_by(order)


def _entries(rows: Iterable[Any]) -> list[Journalled]:
    return [Journalled(seq, decode_fact(kind, body)) for seq, kind, body in rows]
