"""The audit log: who did what. Appended to, never changed; the oldest entries go when it is full."""

from collections.abc import Sequence
from dataclasses import asdict

from sqlalchemy import Connection, delete, insert, select

from muster.store.schema import audit
from muster.wire.api.trust_records import ActRecord

KEEP = 200_000
"""Entries kept: some 40 MB."""
PRUNED_EVERY = 1_000
"""Entries between two prunings."""
LONGEST = 300
"""Characters of a detail: what was asked for may be long."""

_APPEND, _LAST = insert(audit), select(audit.c.id).order_by(audit.c.id.desc()).limit(1)
"""Made once: making a statement takes longer than running it."""


def append(connection: Connection, acts: Sequence[ActRecord]) -> None:
    """Append entries, and now and then remove the oldest beyond the limit."""
    if not acts:
        return
    rows = [{**asdict(act), "detail": act.detail[:LONGEST]} for act in acts]
    connection.execute(_APPEND, rows)
    last = connection.scalar(_LAST) or 0
    if last // PRUNED_EVERY > (last - len(acts)) // PRUNED_EVERY:
        connection.execute(delete(audit).where(audit.c.id <= last - KEEP))


def read(connection: Connection, user: str | None, since: float, limit: int) -> list[ActRecord]:
    """Return the last entries, oldest first."""
    columns = [audit.c[name] for name in ActRecord.__slots__]
    query = select(*columns).where(audit.c.at >= since).order_by(audit.c.id.desc()).limit(limit)
    if user is not None:
        query = query.where(audit.c.user == user)
    return [ActRecord(**row._mapping) for row in connection.execute(query)][::-1]
