"""Pages of jobs: newest first, or those that run, those that wait and those that ended."""

from muster.daemon.service.protocol import JobQuery, RefusedError
from muster.store.job_filter import JobFilter
from muster.store.store import Store
from muster.wire.api.records import LIVE, OVER, JobRecord

WAITING = ("waiting",)
GROUPS = (tuple(status for status in LIVE if status not in WAITING), WAITING, OVER)
"""Statuses in the order of a list with the active jobs first."""

Found = tuple[list[JobRecord], dict[str, int]]
"""A page, and the numbers of all jobs by status if it is the first."""

Asked = tuple[list[tuple[str, ...]], int | None]
"""Groups of statuses, and the number before which a page begins in the first of them."""


def newest_first(
    store: Store, wanted: JobFilter, statuses: tuple[str, ...], cursor: str | None, limit: int
) -> Found:
    """Return a page of jobs by number: complete even while jobs change their status."""
    before = _number(cursor)
    return store.filtered(wanted, statuses=statuses, before=before, limit=limit), {}


def groups_asked(statuses: tuple[str, ...], cursor: str | None) -> Asked:
    """Return what a page with the active jobs first asks for."""
    first, before = _position(cursor)
    asked = [tuple(each for each in group if not statuses or each in statuses) for group in GROUPS]
    return [group for group in asked[first:] if group], before if asked[first] else None


def cursor_after(record: JobRecord, query: JobQuery) -> str:
    """Return where the page after this job begins."""
    if not query.active_first:
        return str(record.number)
    group = next(place for place, each in enumerate(GROUPS) if record.status in each)
    return f"{group}-{record.number}"


def sweep_cursor(cursor: str | None) -> int | None:
    """Return the number before which a page of sweeps begins."""
    return _number(cursor)


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
