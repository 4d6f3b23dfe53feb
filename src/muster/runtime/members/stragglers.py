"""Finds workers that stay slow (Optimus) by their step times, and reports them once, for replacement.

Shares follow a worker's speed within a few steps (`shares`), so a slow worker does not delay the others
for long. One that is far slower for many steps wastes its device.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from statistics import median


@dataclass(slots=True)
class _Record:
    slow: int = 0
    """Steps in a row."""
    good: int = 0
    told: bool = False


class StragglerWatch:
    """Reports a worker `factor` times slower than the others' median for `patience` steps in a row.

    That leaves time for shares to shrink (three or four steps) and for a burst to pass.
    """

    def __init__(self, factor: float = 2.0, patience: int = 20) -> None:
        self._factor, self._patience = factor, patience
        self._records: dict[str, _Record] = {}

    def note(self, rates: Mapping[str, float]) -> list[tuple[str, float]]:
        """Take each worker's seconds per sample of a step; return (task, times slower) to report now.

        Unmeasured workers are skipped, missing ones forgotten. A worker is reported again only after as
        many good steps in a row.
        """
        self._records = {task: self._records.get(task, _Record()) for task in rates}
        known = {task: rate for task, rate in rates.items() if isfinite(rate) and rate > 0}
        if len(known) < 2:
            return []
        found = []
        for task, rate in known.items():
            behind = rate / median(other for name, other in known.items() if name != task)
            if self._is_news(self._records[task], behind > self._factor):
                found.append((task, behind))
        return found

    def _is_news(self, record: _Record, slow: bool) -> bool:
        record.slow, record.good = (record.slow + 1, 0) if slow else (0, record.good + 1)
        if record.good >= self._patience:
            record.told = False
        if record.told or record.slow < self._patience:
            return False
        record.told = True
        return True
