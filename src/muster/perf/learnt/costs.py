"""Seconds per unit of a job's work, by number of devices and stretch of its progress."""

from collections.abc import Mapping, Sequence

import numpy as np

from muster.model.outlook import Table
from muster.perf.learnt.batches import Array
from muster.perf.learnt.tables import ByType
from muster.perf.learnt.way import lengths, start, stretch


class Costs:
    """Costs on 1, 2, ... devices (rows) in each stretch (columns), at the best batch there."""

    def __init__(self, batches: Sequence[int | None], rates: Array, *, free: bool = False) -> None:
        """`rates`: work per s, (batches, devices, stretches). `free`: the batch is chosen, even if
        there is only one to choose from yet."""
        self._batches, self._free = batches, free or len(batches) > 1
        self._best = rates.argmax(axis=0) if self._free else None
        self._each = 1 / (rates[0] if len(rates) == 1 else rates.max(axis=0))
        self._until = np.cumsum(self._each * lengths(self._each.shape[1]), axis=1)
        self._alone: tuple[list[float], list[float]] = (
            [0.0, *self._until[0].tolist()],
            self._each[0].tolist(),
        )

    def alone(self, begin: float, end: float) -> float:
        """Return s on one device between two points of progress; the last stretch has no end."""
        return self._one(end) - (self._one(begin) if begin else 0.0)

    def between(self, begin: int, end: int) -> Array:
        """Return s on each number of devices from the start of a stretch to the end of another."""
        last = self._each.shape[1] - 1
        found = self._until[:, min(end, last)].copy()
        if begin:
            found -= self._until[:, min(begin - 1, last)]
        beyond = start(end + 1) - start(max(begin, last + 1))
        if end > last:
            found += self._each[:, last] * beyond
        return np.asarray(found, dtype=np.float64)

    def best(self, at: int) -> tuple[int, ...]:
        """Return the best batch in a stretch for each number of devices; empty: there is no choice."""
        if self._best is None:
            return ()
        column = self._best[:, min(at, self._each.shape[1] - 1)]
        return tuple(self._batches[i] or 0 for i in column.tolist())

    def _one(self, done: float) -> float:
        before, each = self._alone
        at = stretch(done)
        if at >= len(each):
            at = len(each) - 1
        return before[at] + (done - start(at)) * each[at]


def compared(every: Mapping[str, Costs], begin: int, end: int) -> ByType:
    """Return tables by type: speed-up over one device of the first type."""
    seconds = {name: costs.between(begin, end) for name, costs in every.items()}
    alone = float(next(iter(seconds.values()))[0])
    return ByType(
        tuple(
            (name, Table(tuple((alone / seconds[name]).tolist()), costs.best(begin)))
            for name, costs in every.items()
        )
    )
