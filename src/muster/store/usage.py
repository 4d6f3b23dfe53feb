"""The accounts: what jobs held, by hour, job and device type. Added to, never taken from."""

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, delete, distinct, func, or_, select

from muster.store.batch import Use
from muster.store.schema import usage
from muster.store.upsert import upsert_of

KEEP = 400 * 24
"""Hours kept: a year, and a month to compare it with."""

SUMS = ("held", "idle", "lost", "busy", "watched")
GROUPS = ("user", "pool", "application", "labels", "device_type", "number")
"""Columns that uses can be grouped by."""


def add(connection: Connection, uses: Sequence[Use]) -> None:
    """Add uses to what is stored of their hours, jobs and device types."""
    if not uses:
        return
    connection.execute(_adding(connection.dialect.name), [asdict(use) for use in uses])
    newest = max(use.hour for use in uses)
    if newest % 24 == 0:  # an hour of each day: the oldest need not go at once
        connection.execute(delete(usage).where(usage.c.hour < newest - KEEP))


@cache
def _adding(dialect: str) -> Insert:
    """Return the statement of `add`: making it takes longer than running it."""
    new = upsert_of(dialect, usage)
    changed: dict[str, Any] = {name: usage.c[name] + new.excluded[name] for name in SUMS}
    changed["until"] = new.excluded.until
    key = [column.name for column in usage.primary_key]
    statement: Insert = new.on_conflict_do_update(index_elements=key, set_=changed)
    return statement


def charged_until(connection: Connection, numbers: Sequence[int]) -> dict[int, float]:
    """Return up to when jobs are charged; those that never were are left out."""
    wanted = set(numbers)
    query = select(usage.c.number, func.max(usage.c.until)).group_by(usage.c.number)
    if wanted:
        query = query.where(usage.c.number >= min(wanted))
    return {row[0]: row[1] for row in connection.execute(query) if row[0] in wanted}


def read(
    connection: Connection,
    since: int,
    until: int,
    by: Sequence[str],
    users_or_pools: tuple[str, tuple[str, ...]] | None = None,
) -> list[dict[str, Any]]:
    """Return sums of the hours [since, until), a row for each group, with the number of its jobs."""
    groups = [usage.c[name] for name in by]
    sums = [func.coalesce(func.sum(usage.c[name]), 0.0).label(name) for name in SUMS]
    jobs = func.count(distinct(usage.c.number)).label("jobs")
    query = select(*groups, *sums, jobs).where(usage.c.hour >= since, usage.c.hour < until)
    if users_or_pools is not None:
        user, pools = users_or_pools
        query = query.where(or_(usage.c.user == user, usage.c.pool.in_(pools)))
    return [dict(row._mapping) for row in connection.execute(query.group_by(*groups))]
