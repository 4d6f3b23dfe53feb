"""Pages of jobs: newest first, or those that run, those that wait and those that ended."""

from dataclasses import dataclass

from muster.daemon.service.protocol import JobQuery, RefusedError
from muster.store.store import Store
from muster.wire.records import LIVE, OVER, JobRecord

WAITING = ("waiting",)
GROUPS = (tuple(status for status in LIVE if status not in WAITING), WAITING, OVER)
"""Statuses in the order of a list with the active jobs first."""

Found = tuple[list[JobRecord], dict[str, int]]
"""A page, and the numbers of all jobs by status if it is the first."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None: any."""

    user: str | None = None
    pool: str | None = None
    name: str | None = None
    users_or_pools: tuple[str, tuple[str, ...]] | None = None
    """The caller and the shared pools: the only ones whose jobs are listed."""


def newest_first(
    store: Store, wanted: JobFilter, statuses: tuple[str, ...], cursor: str | None, limit: int
) -> Found:
    """Return a page of jobs by number: complete even while jobs change their status."""
    return _page(store, wanted, statuses, _number(cursor), limit), {}


def active_first(
    store: Store, wanted: JobFilter, statuses: tuple[str, ...], cursor: str | None, limit: int
) -> Found:
    """Return a page with the active jobs first, and on the first page the counts of all."""
    group, before = _position(cursor)
    found: list[JobRecord] = []
    for each in GROUPS[group:]:
        asked = tuple(status for status in each if not statuses or status in statuses)
        if asked:
            found += _page(store, wanted, asked, before, limit - len(found))
        if len(found) >= limit:
            break
        before = None
    return found, _counts(store, wanted) if cursor is None else {}


def cursor_after(record: JobRecord, query: JobQuery) -> str:
    """Return where the page after this job begins."""
    if not query.active_first:
        return str(record.number)
    group = next(place for place, each in enumerate(GROUPS) if record.status in each)
    return f"{group}-{record.number}"


def _page(
    store: Store, wanted: JobFilter, statuses: tuple[str, ...], before: int | None, limit: int
) -> list[JobRecord]:
    return store.jobs(
        statuses=statuses,
        user=wanted.user,
        users_or_pools=wanted.users_or_pools,
        pool=wanted.pool,
        name=wanted.name,
        before=before,
        limit=limit,
    )


def _counts(store: Store, wanted: JobFilter) -> dict[str, int]:
    return store.counts(
        user=wanted.user,
        pool=wanted.pool,
        name=wanted.name,
        users_or_pools=wanted.users_or_pools,
    )


def _position(cursor: str | None) -> tuple[int, int | None]:
    if cursor is None:
        return 0, None
    group, _, number = cursor.partition("-")
    if group not in map(str, range(len(GROUPS))):
        raise _not_a_cursor()
    return int(group), _number(number)


def _number(text: str | None) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise _not_a_cursor()
    return int(text)


def _not_a_cursor() -> RefusedError:
    return RefusedError("not a cursor; pass the `next` of the previous page")
