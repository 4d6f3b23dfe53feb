"""Which jobs a client asks for, as the query of a request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSelection:
    """Which jobs to list or stop; None or empty: any."""

    statuses: tuple[str, ...] = ()
    user: str | None = None
    """A name; "@me": the caller."""
    pool: str | None = None
    name: str | None = None
    """A name, or a pattern with * and ?."""
    labels: Sequence[str] = ()
    """`key=value`, or a key that they have; all must match."""
    since: float | None = None
    """Submitted at this time, in s since 1970, or later."""
    before: float | None = None
    """Submitted before this time."""

    def query(self) -> dict[str, Any]:
        """Return the parameters of a request."""
        given = (self.statuses, self.user, self.pool, self.name)
        return job_query(*given, self.labels, self.since, self.before)


def job_query(
    statuses: tuple[str, ...],
    user: str | None,
    pool: str | None,
    name: str | None,
    labels: Sequence[str],
    since: float | None,
    before: float | None,
) -> dict[str, Any]:
    """Return the parameters of a request for jobs; the arguments are as in `JobSelection`."""
    chosen: dict[str, Any] = {"status": list(statuses), "label": list(labels)}
    return chosen | {"user": user, "pool": pool, "name": name, "since": since, "before": before}
