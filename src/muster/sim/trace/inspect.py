"""What is in a trace, before anything is played: counts, sizes, run times, load over time.

Kept of each job are three numbers (24 bytes), so a million rows are 24 MB; everything else is counted.
"""

from array import array
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from math import isfinite, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from muster.model.job import Job, Role
from muster.sim.truth import Arrival

Floats = NDArray[np.float64]

HOUR = 3600.0
BINS = 60
"""Points of a curve over time: what fits on a line of a terminal."""
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
MOST_NAMED = 10
"""Users, pools and applications that are named; the others are counted."""


@dataclass(frozen=True, slots=True)
class Tallest:
    """Who has most jobs: the first few by name, and how many there are in all."""

    different: int
    most: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class OverTime:
    """A curve: values of equal spans of time, each so many s long, from the first submission on."""

    span: float
    values: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """What is in a trace. Times in s, devices as asked for (the gang), run times alone on those."""

    jobs: int
    first: float
    last: float
    elastic: int
    """Jobs that could use more than they ask for."""
    unknown: int
    """Jobs whose run time nobody knows."""
    devices: tuple[tuple[int, int], ...]
    """How many jobs ask for how many devices, fewest devices first."""
    device_hours: float
    durations: tuple[tuple[float, float], ...]
    """Quantiles: part of the jobs, s that they take at most."""
    by_hour: tuple[float, ...]
    """Jobs an hour by the hour of the day; second 0 of the trace is midnight."""
    arrivals: OverTime
    """Jobs an hour."""
    load: OverTime
    """Devices that the jobs submitted in a span keep busy on average over it."""
    peak: int
    """Devices in use at the worst moment if every job started at once."""
    users: Tallest
    pools: Tallest
    applications: Tallest
    capacity: int | None = None
    """Devices of the cluster in mind, where one is."""
    too_large: int = 0
    """Jobs that ask for more than it has."""

    @property
    def span(self) -> float:
        """s from the first submission to the last."""
        return self.last - self.first

    @property
    def mean_load(self) -> float | None:
        """Device-seconds asked for over those that pass between the first submission and the last."""
        if not self.capacity or not self.span:
            return None
        return self.device_hours * HOUR / (self.capacity * self.span)

    def as_json(self) -> dict[str, Any]:
        """Plain values, as `json.dumps` takes them."""
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
        self.seconds.append(_alone(arrival, spec.gang))
        self.devices.append(spec.gang * spec.need.devices)
        self.elastic += spec.most > spec.gang
        self.users[job.user] += 1
        self.pools[job.pool] += 1
        if job.application is not None:
            self.applications[job.application] += 1


def summarise(arrivals: Iterable[Arrival], capacity: int | None = None) -> TraceSummary:
    """Read a trace to its end and say what is in it, against a cluster of so many devices."""
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
    """s that a job takes by itself on the gang it asks for; NaN where nobody knows."""
    return _alone(arrival, arrival.job.workers.gang)


def _alone(arrival: Arrival, gang: int) -> float:
    job, truth = arrival.job, arrival.truth
    if truth is None:
        return job.duration if job.duration is not None else nan
    outlook = truth.outlook(0.0)
    device_type = job.device_types[0] if job.device_types else ""
    rate = outlook.speed.rate(device_type, gang, _servers(job) if len(job.roles) > 1 else 0)
    seconds = outlook.left / rate if rate > 0 else nan
    return seconds if isfinite(seconds) else nan


def _servers(job: Job) -> int:
    return sum(spec.gang for spec in job.roles if spec.role is Role.SERVER)


def _quantiles(seconds: Floats) -> tuple[tuple[float, float], ...]:
    if not len(seconds):
        return ()
    values = np.quantile(seconds, QUANTILES)
    return tuple((part, float(value)) for part, value in zip(QUANTILES, values, strict=True))


def _over_time(at: Floats, amounts: Floats, first: float, last: float) -> OverTime:
    """Amounts a second in each span; spans are as long as `BINS` of them need, at least a minute."""
    if not len(at):
        return OverTime(0.0, ())
    span = max((last - first) / BINS, 60.0)
    count = min(BINS, int((last - first) // span) + 1)
    where = np.minimum(((at - first) // span).astype(np.int64), count - 1)
    sums = np.bincount(where, weights=amounts, minlength=count)
    return OverTime(span, tuple((sums / span).tolist()))


def _by_hour(at: Floats, first: float, last: float) -> tuple[float, ...]:
    """Jobs an hour for each hour of the day, over the days in which the trace has that hour."""
    if not len(at):
        return ()
    jobs = np.bincount((at // HOUR).astype(np.int64) % 24, minlength=24)
    hours = np.arange(int(first // HOUR), int(last // HOUR) + 1)
    seen = np.bincount(hours % 24, minlength=24)
    return tuple((jobs / np.maximum(seen, 1)).tolist())


def _peak(at: Floats, seconds: Floats, devices: Floats) -> int:
    """The most devices at once if none had to wait; what ends makes way for what begins."""
    if not len(at):
        return 0
    moments = np.concatenate([at + seconds, at])
    changes = np.concatenate([-devices, devices])
    order = np.argsort(moments, kind="stable")
    return int(changes[order].cumsum().max())


def _tallest(counts: Counter[str]) -> Tallest:
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_NAMED]
    return Tallest(len(counts), tuple(most))
