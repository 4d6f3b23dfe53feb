"""A lower bound on the mean completion time of rigid jobs on several types, by a linear programme.

Time is cut into slots, narrow ones as long as jobs arrive, when most of them are there. x is the part
of a slot for which a job runs on a type; it runs on one at a time, and the devices of a type suffice.
No job works before r_j: it must be submitted, and have started, which takes its pause. Any schedule,
with any further pauses, is such an x, and its completion times C_j satisfy two inequalities:

1. C_j >= r_j + sum_i a_i, a_i being the s that the job works on type i: it works on one at a time.
2. C_j >= M_j + 1/2 (h_1 + sum_{i > 1} (h_i - h_{i-1}) F_i^2). M_j is the mean moment of its progress,
   h_1 <= h_2 <= ... its times on each type alone, the fastest first, f_i = a_i / h_i the part of its
   work that it does on type i, and F_i = f_i + f_{i+1} + ... that on type i and slower ones.

   Proof. C_j - M_j is the integral of C_j - t over its progress. With the a_i given, that is least if
   it works until C_j without a break, slow types first: exchanging two pieces of time so that the
   faster comes later takes progress to later moments. Then the piece on type i contributes
   f_i (sum_{k < i} a_k + a_i / 2); a_k = h_k f_k, and collecting the terms of h_i gives
   h_i (f_i^2 / 2 + f_i F_{i+1}) = h_i (F_i^2 - F_{i+1}^2) / 2, whose sum is the above as F_1 = 1.

F^2 is convex, so its tangents 2 g F - g^2 are below it, and the programme has a few of them. Progress
in a slot counts at the slot's beginning, which is before its moment. What is done after the horizon
counts at the horizon, on as many devices as all jobs ask for. So the least sum of C_j under these
inequalities is no more than that of any schedule. Gangs and jobs may be split at will, which only
lowers it further.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from muster.sim.truth import Arrival

SLOTS, LATER = 144, 48
"""Slots until half as long again as jobs arrive, and after that: with twice as many the bound is 0.3 %
higher."""
TANGENTS = (0.25, 0.5, 0.75, 1.0)
"""Parts of a job's work at which F^2 has its tangents."""


@dataclass(slots=True)
class _Rows:
    """Rows of a sparse matrix, added block by block."""

    entries: list[tuple[Any, ...]] = field(default_factory=list)
    limits: list[Any] = field(default_factory=list)
    count: int = 0

    def begin(self, limits: Any) -> int:
        """Add rows with these right-hand sides; return the number of the first."""
        first, self.count = self.count, self.count + len(limits)
        self.limits.append(np.asarray(limits, dtype=float))
        return first

    def put(self, rows: Any, columns: Any, values: Any) -> None:
        """Add values; all three are broadcast together."""
        self.entries.append(tuple(each.ravel() for each in np.broadcast_arrays(rows, columns, values)))

    def matrix(self, columns: int) -> Any:
        """Return the matrix."""
        rows, at, values = (np.concatenate(each) for each in zip(*self.entries, strict=True))
        return coo_array((values, (rows, at)), shape=(self.count, columns))


class _Programme:
    """Columns: x by (job and slot, type); then C_j; then F_i^2 by (job, type but the fastest)."""

    def __init__(self, arrivals: Sequence[Arrival], devices: Mapping[str, int], horizon: float) -> None:
        types = list(devices)
        self.submitted = np.array([each.at for each in arrivals])
        self.ready = self.submitted + [each.job.pause for each in arrivals]
        self.gangs = np.array([each.job.workers.gang for each in arrivals])
        self.seconds = np.array([[_seconds(each, name) for name in types] for each in arrivals])
        """Of each job on each type alone."""
        edges = np.append(_edges(arrivals[-1].at, horizon), horizon + self.seconds.max())
        self.job, self.slot = np.nonzero(edges[1:] > self.ready[:, None])
        self.width = np.diff(edges)[self.slot]
        self.begins = np.maximum(edges[self.slot], self.ready[self.job])
        self.open = (edges[self.slot + 1] - self.begins) / self.width
        """Part of the slot in which the job is ready."""
        self.devices = np.tile([devices[name] for name in types], len(edges) - 1)
        self.devices[-len(types) :] = self.gangs.sum()
        self.jobs, self.types = self.seconds.shape
        self.columns = np.arange(self.job.size * self.types).reshape(-1, self.types)
        self.ends = self.columns.size + np.arange(self.jobs)
        squares = np.arange(self.jobs * (self.types - 1)).reshape(self.jobs, -1)
        self.squares = self.columns.size + self.jobs + squares
        self.total = self.columns.size + self.jobs * self.types
        self.progress = self.width[:, None] / self.seconds[self.job]
        """Part of its work that a job does in the whole slot."""

    def least(self) -> float:
        """Return the least mean completion time."""
        rows, done = _Rows(), _Rows()
        self._share(rows)
        self._end(rows)
        self._square(rows)
        done.put(done.begin(np.ones(self.jobs)) + self.job[:, None], self.columns, self.progress)
        low, high = np.zeros(self.total), np.full(self.total, np.inf)
        high[self.columns] = self.open[:, None]
        low[self.ends] = self.ready + self.seconds.min(axis=1)
        cost = np.zeros(self.total)
        cost[self.ends] = 1.0
        bounds: Any = np.stack((low, high), axis=1)  # an array is quicker than pairs, and not typed
        found: Any = linprog(
            cost,
            A_ub=rows.matrix(self.total),
            b_ub=np.concatenate(rows.limits),
            A_eq=done.matrix(self.total),
            b_eq=np.concatenate(done.limits),
            bounds=bounds,
            method="highs-ipm",
        )
        assert found.x is not None, found.message
        return float((found.x[self.ends] - self.submitted).mean())

    def _share(self, rows: _Rows) -> None:
        """The devices of each type suffice, and a job runs on one type at a time."""
        first = rows.begin(self.devices)
        places = first + self.slot[:, None] * self.types + np.arange(self.types)
        rows.put(places, self.columns, self.gangs[self.job][:, None])
        first = rows.begin(self.open)
        rows.put(first + np.arange(self.job.size)[:, None], self.columns, 1.0)

    def _end(self, rows: _Rows) -> None:
        """C_j is as late as both inequalities say."""
        every, job = np.arange(self.jobs), self.job[:, None]
        first = rows.begin(-self.ready)
        rows.put(first + job, self.columns, self.width[:, None])
        rows.put(first + every, self.ends, -1.0)
        alone = np.sort(self.seconds, axis=1)
        first = rows.begin(-alone[:, 0] / 2)
        rows.put(first + job, self.columns, self.begins[:, None] * self.progress)
        rows.put(first + every, self.ends, -1.0)
        rows.put(first + every[:, None], self.squares, np.diff(alone, axis=1) / 2)

    def _square(self, rows: _Rows) -> None:
        """F_i^2 is above its tangents."""
        rank = np.argsort(np.argsort(self.seconds, axis=1), axis=1)[self.job]
        for i in range(1, self.types):
            for at in TANGENTS:
                first = rows.begin(np.full(self.jobs, at**2))
                slow = 2 * at * self.progress * (rank >= i)
                rows.put(first + self.job[:, None], self.columns, slow)
                rows.put(first + np.arange(self.jobs), self.squares[:, i - 1], -1.0)


def lp_bound(arrivals: Sequence[Arrival], devices: Mapping[str, int], horizon: float) -> float:
    """Return the bound in s; `horizon`: until when the moments of work are told apart."""
    return _Programme(arrivals, devices, horizon).least()


def _seconds(arrival: Arrival, device_type: str) -> float:
    assert arrival.truth is not None
    gang = arrival.job.workers.gang
    return arrival.truth.ideal(device_type, gang, gang).shortest


def _edges(last: float, horizon: float) -> Any:
    """Return where slots begin and end; `last`: when the last job arrives."""
    busy = min(1.5 * last, horizon)
    later = np.linspace(busy, horizon, LATER + 1)[1:] if horizon > busy else np.zeros(0)
    return np.concatenate((np.linspace(0.0, busy, SLOTS + 1), later))
