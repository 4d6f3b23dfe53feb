"""Which jobs to list, and the conditions that the database checks."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, select

from muster.store.schema import jobs, labels

GLOB = frozenset("*?")
"""Characters of a pattern: any text, any character."""


@dataclass(frozen=True, slots=True)
class JobFilter:
    """Which jobs to list; None: any."""

    user: str | None = None
    pool: str | None = None
    name: str | None = None
    """A name, or a pattern with * and ?."""
    users_or_pools: tuple[str, tuple[str, ...]] | None = None
    """The caller and the shared pools: the only ones whose jobs are listed."""
    labels: tuple[tuple[str, str | None], ...] = ()
    """Keys, each with its value or None for any."""
    since: float | None = None
    """Submitted at this time, in s, or later."""
    until: float | None = None
    """Submitted before this time."""

    @property
    def by_owner(self) -> bool:
        """Whether user and pool are all that it asks of a job."""
        return (self.name, self.labels, self.since, self.until) == (None, (), None, None)

    def shows(self, user: str, pool: str) -> bool:
        """Whether it asks for jobs of this user in this pool, as far as it depends on them."""
        if self.user not in (None, user) or self.pool not in (None, pool):
            return False
        if self.users_or_pools is None:
            return True
        mine, shared = self.users_or_pools
        return user == mine or pool in shared


def conditions(dialect: str, wanted: JobFilter, *, counting: bool = False) -> list[ColumnElement[bool]]:
    """Return what a job's row must have, whoever may see it.

    `counting`: all jobs are looked at, of which the index by status has all that is counted. As an
    expression, their number does not lead the database to their rows: 10 instead of 90 ms for 10,000.
    """
    number: ColumnElement[int] = jobs.c.number + 0 if counting else jobs.c.number
    found = [
        column == value
        for column, value in ((jobs.c.user, wanted.user), (jobs.c.pool, wanted.pool))
        if value is not None
    ]
    if wanted.name is not None:
        found.append(_named(wanted.name, dialect))
    found += [number.in_(_labelled(key, value)) for key, value in wanted.labels]
    if wanted.since is not None:
        found.append(jobs.c.submitted >= wanted.since)
    if wanted.until is not None:
        found.append(jobs.c.submitted < wanted.until)
    return found


def _named(name: str, dialect: str) -> ColumnElement[bool]:
    if GLOB.isdisjoint(name):
        return jobs.c.name == name
    if dialect == "sqlite":  # whose LIKE takes a for A
        return jobs.c.name.op("GLOB")(name.replace("[", "[[]"))
    escaped = name.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return jobs.c.name.like(escaped.replace("*", "%").replace("?", "_"), escape="\\")


def _labelled(key: str, value: str | None) -> Any:
    found = select(labels.c.number).where(labels.c.key == key)
    return found if value is None else found.where(labels.c.value == value)
