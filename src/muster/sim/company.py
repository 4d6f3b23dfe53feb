"""What each job shares with its neighbours, by their kind: followed as jobs come and go.

A job that comes or goes has dozens of neighbours, each of which has as many others; only what it shares
with each of them changes.
"""

from collections.abc import Collection, Mapping, Sequence

from muster.model.slowdowns import Common
from muster.perf.history.neighbours import Rival


class Company:
    """The neighbours of each job, counted by what they share and by kind."""

    def __init__(self) -> None:
        self._of: dict[int, dict[Rival, int]] = {}
        self._kinds: dict[int, str] = {}
        self._changed: dict[int, int] = {}
        """What `changes` was when the company of each job changed last."""
        self.changes = 0
        """Counts who has come or gone."""

    def of(self, job: int) -> Collection[Rival]:
        """Return what could slow a job, each once."""
        return self._of.get(job, ())

    def changed(self, job: int) -> int:
        """Return a number that changes with what could slow a job."""
        return self._changed.get(job, 0)

    def come(self, job: int, kind: str, beside: Mapping[int, Sequence[Common]]) -> None:
        """Add a job beside others."""
        self._kinds[job] = kind
        self._count(job, beside, 1)

    def leave(self, job: int, beside: Mapping[int, Sequence[Common]]) -> None:
        """Remove a job from beside others."""
        self._count(job, beside, -1)
        del self._kinds[job]
        self._of.pop(job, None)
        self._changed.pop(job, None)

    def _count(self, job: int, beside: Mapping[int, Sequence[Common]], by: int) -> None:
        self.changes += 1
        kinds = self._kinds
        for other, shared in beside.items():
            for common in shared:
                self._add(job, Rival(common, kinds[other]), by)
                self._add(other, Rival(common, kinds[job]), by)

    def _add(self, job: int, rival: Rival, by: int) -> None:
        mine = self._of.setdefault(job, {})
        mine[rival] = mine.get(rival, 0) + by
        if not mine[rival]:
            del mine[rival]
        self._changed[job] = self.changes
