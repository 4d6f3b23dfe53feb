"""Rows of sweeps."""

from sqlalchemy import ColumnElement, Connection, func, or_, select

from muster.store import lists
from muster.store.codec import decode_record, encode_record
from muster.store.schema import sweeps
from muster.wire.api.sweep_records import SweepRecord


def put(connection: Connection, records: tuple[SweepRecord, ...]) -> None:
    """Write list entries; each replaces that of its number."""
    rows = [
        {
            "number": record.number,
            "name": record.name,
            "user": record.user,
            "pool": record.pool,
            "members": record.members,
            "body": encode_record(record),
        }
        for record in records
    ]
    lists.put(connection, sweeps, rows)


def page(
    connection: Connection,
    users_or_pools: tuple[str, tuple[str, ...]] | None,
    before: int | None,
    limit: int,
) -> list[SweepRecord]:
    """Return sweeps, newest first."""
    wanted: list[ColumnElement[bool]] = [] if before is None else [sweeps.c.number < before]
    if users_or_pools is not None:
        user, pools = users_or_pools
        wanted.append(or_(sweeps.c.user == user, sweeps.c.pool.in_(pools)))
    query = select(sweeps.c.body).where(*wanted).order_by(sweeps.c.number.desc()).limit(limit)
    return [decode_record(body, SweepRecord) for body in connection.scalars(query)]


def one(connection: Connection, number: int) -> SweepRecord | None:
    """Return the sweep of a number."""
    body = connection.scalar(select(sweeps.c.body).where(sweeps.c.number == number))
    return None if body is None else decode_record(body, SweepRecord)


def named(connection: Connection, user: str, name: str) -> SweepRecord | None:
    """Return a user's newest sweep of a name."""
    query = select(sweeps.c.body).where(sweeps.c.user == user, sweeps.c.name == name)
    body = connection.scalar(query.order_by(sweeps.c.number.desc()).limit(1))
    return None if body is None else decode_record(body, SweepRecord)


def highest(connection: Connection) -> int:
    """Return the highest number that any sweep or a member of one has; 0: none."""
    return connection.scalar(select(func.max(sweeps.c.number + sweeps.c.members))) or 0
