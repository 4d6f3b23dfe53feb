"""Summary of a trace: counts, sizes, run times, load over time.

Three numbers of each job are kept (24 bytes), so a million rows take 24 MB.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.model.job import Role
from muster.sim.truth import Arrival

Floats = NDArray[np.float64]

HOUR = 3600.0
BINS = 60
"""Points of a curve over time: they fit on a line of a terminal."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MOST_NAMED = 10
"""Users, pools and applications listed by name."""


@dataclass(frozen=True, slots=True)
class Tallest:
    """The names with most jobs, and the number of all names."""

    different: int
    most: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OverTime:
    """A curve: values of equal spans of time, `span` s each, from the first submission."""

    span: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Summary of a trace. Times in s, devices of the gang, run times alone on those."""

    jobs: int
    first: float
    last: float
    elastic: int
    """Jobs that could use more than they ask for."""
    unknown: int
    """Jobs without a run time."""
    devices: tuple[tuple[int, int], ...]
    """Number of jobs by devices, fewest devices first."""
    device_hours: float
    durations: tuple[tuple[float, float], ...]
    """Quantiles: part of the jobs, run time in s."""
    by_hour: tuple[float, ...]
    """Jobs an hour by the hour of the day; second 0 of the trace is midnight."""
    arrivals: OverTime
    """Jobs an hour."""
    load: OverTime
    """Mean devices that the jobs submitted in a span keep busy over it."""
    peak: int
    """Most devices in use if every job started at once."""
    users: Tallest
    pools: Tallest
    applications: Tallest
    capacity: int | None = None
    too_large: int = 0
    """Jobs that ask for more than it has."""

    @property
    def span(self) -> float:
        """s from the first submission to the last."""
        return self.last - self.first

    @property
    def mean_load(self) -> float | None:
        """Device-seconds asked for / those available between the first submission and the last."""
        if not self.capacity or not self.span:
            return None
        return self.device_hours * HOUR / (self.capacity * self.span)

    def as_json(self) -> dict[str, Any]:
        """Return plain values for `json.dumps`."""
        return {**asdict(self), "span": self.span, "mean_load": self.mean_load}


class _Tally:
    """Counts arrivals one by one."""

    def __init__(self) -> None:
        self.at, self.seconds, self.devices = array("d"), array("d"), array("d")
        self.elastic = 0
        self.users: Counter[str] = Counter()
        self.pools: Counter[str] = Counter()
        self.applications: Counter[str] = Counter()

    def add(self, arrival: Arrival) -> None:
        job = arrival.job
        spec = job.workers
        self.at.append(arrival.at)
        self.seconds.append(alone(arrival))
        self.devices.append(spec.gang * spec.need.devices)
        self.elastic += spec.most > spec.gang
        self.users[job.user] += 1
        self.pools[job.pool] += 1
        if job.application is not None:
            self.applications[job.application] += 1


def summarise(arrivals: Iterable[Arrival], capacity: int | None = None) -> TraceSummary:
    """Read a trace to its end and summarise it, against a cluster of `capacity` devices."""
    tally = _Tally()
    for arrival in arrivals:
        tally.add(arrival)
    at, seconds, devices = (np.array(each) for each in (tally.at, tally.seconds, tally.devices))
    known = np.isfinite(seconds)
    work = np.where(known, seconds, 0.0) * devices
    sizes = Counter(int(count) for count in devices)
    first, last = (float(at.min()), float(at.max())) if len(at) else (0.0, 0.0)
    return TraceSummary(
        jobs=len(at),
        first=first,
        last=last,
        elastic=tally.elastic,
        unknown=int((~known).sum()),
        devices=tuple(sorted(sizes.items())),
        device_hours=float(work.sum()) / HOUR,
        durations=_quantiles(seconds[known]),
        by_hour=_by_hour(at, first, last),
        arrivals=_over_time(at, np.full(len(at), HOUR), first, last),
        load=_over_time(at, work, first, last),
        peak=_peak(at[known], seconds[known], devices[known]),
        users=_tallest(tally.users),
        pools=_tallest(tally.pools),
        applications=_tallest(tally.applications),
        capacity=capacity,
        too_large=int((devices > capacity).sum()) if capacity else 0,
    )


def alone(arrival: Arrival) -> float:
    """Return the s that a job takes by itself on its gang; NaN if unknown."""
    job, truth = arrival.job, arrival.truth
    if truth is None:
        return job.duration if job.duration is not None else nan
    outlook = truth.outlook(0.0)
    device_type = job.device_types[0] if job.device_types else ""
    servers = sum(spec.gang for spec in job.roles if spec.role is Role.SERVER)
    rate = outlook.speed.rate(device_type, job.workers.gang, servers)
    seconds = outlook.left / rate if rate > 0 else nan
    return seconds if isfinite(seconds) else nan


def _quantiles(seconds: Floats) -> tuple[tuple[float, float], ...]:
    if not len(seconds):
        return ()
    values = np.quantile(seconds, QUANTILES)
    return tuple((part, float(value)) for part, value in zip(QUANTILES, values, strict=True))


def _over_time(at: Floats, amounts: Floats, first: float, last: float) -> OverTime:
    """Return amounts a second in each of `BINS` spans of at least a minute."""
    if not len(at):
        return OverTime(0.0, ())
    span = max((last - first) / BINS, 60.0)
    count = min(BINS, int((last - first) // span) + 1)
    where = np.minimum(((at - first) // span).astype(np.int64), count - 1)
    sums = np.bincount(where, weights=amounts, minlength=count)
    return OverTime(span, tuple((sums / span).tolist()))


def _by_hour(at: Floats, first: float, last: float) -> tuple[float, ...]:
    """Return jobs an hour for each hour of the day, over the days that have that hour."""
    if not len(at):
        return ()
    jobs = np.bincount((at // HOUR).astype(np.int64) % 24, minlength=24)
    hours = np.arange(int(first // HOUR), int(last // HOUR) + 1)
    seen = np.bincount(hours % 24, minlength=24)
    return tuple((jobs / np.maximum(seen, 1)).tolist())


def _peak(at: Floats, seconds: Floats, devices: Floats) -> int:
    """Return the most devices at once if no job waited; ends come before begins."""
    if not len(at):
        return 0
    moments = np.concatenate([at + seconds, at])
    changes = np.concatenate([-devices, devices])
    order = np.argsort(moments, kind="stable")
    return int(changes[order].cumsum().max())


def _tallest(counts: Counter[str]) -> Tallest:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
    return Tallest(len(counts), tuple(most))
