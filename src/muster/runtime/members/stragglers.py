"""Workers that stay slow (Optimus): found by their step times, told once, for replacement.

Shares of the batch follow a worker's speed within a few steps (`shares`), so a slow worker does not
hold the others up for long. One that is far slower than its peers for many steps wastes its device.
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
    """Tells of a worker `factor` times slower than the median of the others, `patience` steps in a row.

    Patience leaves time for shares to shrink first (three or four steps) and for a passing burst.
    """

    def __init__(self, factor: float = 2.0, patience: int = 20) -> None:
        self._factor, self._patience = factor, patience
        self._records: dict[str, _Record] = {}

    def note(self, rates: Mapping[str, float]) -> list[tuple[str, float]]:
        """A step's seconds per sample of each worker; returns (task, times the others') to tell of now.

        Compare like with like: take each worker's line at the same number of samples, for a fixed cost
        over a small share looks slow. A worker without a measurement is left out; one that is no longer
        named is forgotten. It is told of again only after as many good steps in a row.
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
