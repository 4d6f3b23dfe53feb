"""A lower bound on the mean completion time of rigid jobs on several types, by a linear programme.

Time is cut into slots, narrow ones as long as jobs arrive, when most of them are there. x is the part
of a slot for which a job runs on a type; it runs on one at a time, and the devices of a type suffice.
No job works before r_j: it must be submitted, and have started, which takes its pause. A job's progress
has its mean moment M_j; it progresses by at most 1 / h_j each s, h_j being its time on its best type,
so that it ends no earlier than M_j + h_j / 2, nor than r_j + h_j (see `muster.sim.report.bounds`).
Progress in a slot counts at the slot's beginning, so every schedule, with any further pauses, satisfies
the programme, and its least sum is a bound.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from muster.sim.truth import Arrival

SLOTS, LATER = 144, 48
"""Slots until half as long again as jobs arrive, and after that."""


def lp_bound(arrivals: Sequence[Arrival], devices: Mapping[str, int], horizon: float) -> float:
    """Return the bound in s, for jobs that can all be done by the horizon."""
    edges = _edges(arrivals[-1].at, horizon)
    slots = len(edges) - 1
    types = list(devices)
    rows: list[tuple[int, int, float]] = []
    """Row, column and value of the inequalities."""
    done: list[tuple[int, int, float]] = []
    cost_rows: list[tuple[int, int, float]] = []
    tops: list[float] = []
    count = len(arrivals)
    best, upper, columns = np.zeros(count), [], 0
    floors = np.zeros(count)
    for j, each in enumerate(arrivals):
        assert each.truth is not None
        gang = each.job.workers.gang
        seconds = [each.truth.ideal(name, gang, gang).shortest for name in types]
        best[j] = min(seconds)
        ready = each.at + each.job.pause
        floors[j] = ready + best[j]
        for slot in range(slots):
            width = edges[slot + 1] - edges[slot]
            open_for = min(width, edges[slot + 1] - ready)
            if open_for <= 0:
                continue
            begins = max(float(edges[slot]), ready)
            for place, needs in enumerate(seconds):
                done.append((j, columns, width / needs))
                cost_rows.append((j, columns, begins * width / needs))
                rows.append((slot * len(types) + place, columns, float(gang)))
                rows.append((slots * len(types) + j * slots + slot, columns, 1.0))
                columns += 1
                upper.append(open_for / width)
    tops = [float(devices[name]) for _ in range(slots) for name in types]
    widths = np.diff(edges)
    readies = np.array([each.at + each.job.pause for each in arrivals])
    once = np.clip((edges[1:] - readies[:, None]) / widths, 0.0, 1.0).ravel()
    # M_j + h_j / 2 <= C_j and r_j + h_j <= C_j, C_j being the last columns.
    base = len(tops) + len(once)
    ends = [(base + j, columns + j, -1.0) for j in range(count)]
    rows += [(base + j, column, value) for j, column, value in cost_rows] + ends
    limits = np.concatenate((tops, once, -best / 2))
    total = columns + count
    found: Any = linprog(
        np.concatenate((np.zeros(columns), np.ones(count))),
        A_ub=_matrix(rows, base + count, total),
        b_ub=limits,
        A_eq=_matrix(done, count, total),
        b_eq=np.ones(count),
        bounds=[*((0.0, most) for most in upper), *((floor, None) for floor in floors.tolist())],
        method="highs-ipm",
    )
    if found.x is None:
        raise ValueError(f"no schedule ends by {horizon:,.0f} s: {found.message}")
    return float((found.x[columns:] - [each.at for each in arrivals]).mean())


def _edges(last: float, horizon: float) -> Any:
    """Return where slots begin and end; `last`: when the last job arrives."""
    busy = min(1.5 * last, horizon)
    later = np.linspace(busy, horizon, LATER + 1)[1:] if horizon > busy else np.zeros(0)
    return np.concatenate((np.linspace(0.0, busy, SLOTS + 1), later))


def _matrix(entries: Sequence[tuple[int, int, float]], rows: int, columns: int) -> Any:
    at, to, values = zip(*entries, strict=True)
    return coo_array((values, (at, to)), shape=(rows, columns))
