"""Snapshots of the state: a body and the parts after it, each written in a transaction of its own.

One of ten thousand jobs has ten megabytes, which take a tenth of a second to write: facts that are to
be written meanwhile go in between. A snapshot counts from the moment when its body is there, which is
written last.
"""

from sqlalchemy import Connection, delete, select

from muster.store import lists
from muster.store.batch import Snapshot
from muster.store.schema import snapshot_parts, snapshots

KEPT = 2
"""Snapshots kept: if the last cannot be read, a daemon starts from the one before it."""


def put_part(connection: Connection, seq: int, part: int, body: bytes) -> None:
    """Store a part, counted from 0, of a snapshot whose body will follow."""
    lists.put(connection, snapshot_parts, [{"seq": seq, "part": part, "body": body}])


def put(connection: Connection, seq: int, body: bytes, parts: int) -> int | None:
    """Store the body of a snapshot of this many parts, and remove old ones; return the oldest that is
    kept, None while there are too few."""
    lists.put(connection, snapshots, [{"seq": seq, "body": body, "parts": parts}])
    newest = select(snapshots.c.seq).order_by(snapshots.c.seq.desc())
    kept: list[int] = list(connection.scalars(newest.limit(KEPT)))
    if len(kept) < KEPT:
        return None
    for table in (snapshots, snapshot_parts):
        connection.execute(delete(table).where(table.c.seq < kept[-1]))
    return kept[-1]


def latest(connection: Connection, before: int | None = None) -> Snapshot | None:
    """Return the last snapshot, or the last one before a number."""
    query = select(snapshots).order_by(snapshots.c.seq.desc()).limit(1)
    if before is not None:
        query = query.where(snapshots.c.seq < before)
    row = connection.execute(query).one_or_none()
    if row is None:
        return None
    # Parts beyond those are of one that was begun and never ended.
    mine = (snapshot_parts.c.seq == row.seq, snapshot_parts.c.part < row.parts)
    parts = select(snapshot_parts.c.body).where(*mine).order_by(snapshot_parts.c.part)
    return Snapshot(row.seq, b"".join([row.body, *connection.scalars(parts)]))
