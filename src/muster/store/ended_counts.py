"""How many jobs have ended, kept until another one does: lists ask again and again."""

from collections.abc import Callable, Mapping

from muster.store.job_filter import JobFilter

MOST = 1_000
"""Filters kept: one for each caller, and for what they look for."""


class EndedCounts:
    """Counts by status, for each filter. Any thread may ask."""

    def __init__(self) -> None:
        self._known: dict[JobFilter, Mapping[str, int]] = {}

    def known(self, wanted: JobFilter) -> Mapping[str, int] | None:
        """Return the counts that were kept; None: they must be counted."""
        return self._known.get(wanted)

    def counted(self, wanted: JobFilter, count: Callable[[], dict[str, int]]) -> dict[str, int]:
        """Count, and keep the counts."""
        # What was counted while a job ended goes where it is dropped with the rest.
        known, found = self._known, count()
        if len(known) >= MOST:
            known.clear()
        known[wanted] = found
        return found

    def drop(self) -> None:
        """Forget them: jobs have ended, or were removed."""
        self._known = {}
