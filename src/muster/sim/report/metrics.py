"""The figures of one simulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from muster.sim.report.curve import Floats, StepFunction, counted, ratio
from muster.sim.result import ClusterSample, Fate, JobResult, Result

UNFAIR = 1.05
"""Finish-time fairness above which a job was treated unfairly (Shockwave, NSDI 2023)."""
SHORT = 10.0
"""s: shorter jobs count as this long in slowdowns, which they would dominate otherwise (bounded
slowdown: Feitelson and Rudolph, JSSPP 1998)."""
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A simulation's figures, explained by `report.table.columns`. Times in s; None without data."""

    jobs: int
    done: int
    refused: int
    unfinished: int
    mean: float | None
    median: float | None
    p95: float | None
    p99: float | None
    makespan: float | None
    wait: float | None
    wait_p95: float | None
    slowdown: float | None
    rho_worst: float | None
    rho_unfair: float | None
    utilisation: float | None
    useful: float | None
    fragmentation: float | None
    resizes: int
    preemptions: int
    migrations: int
    failures: int
    lost: float
    """Device-hours."""


def summary(result: Result) -> RunSummary:
    records, times = result.records, completion_times(result.records)
    waits = np.array([r.started - r.submitted for r in records if r.started is not None])
    rho = fairness(result)
    lost = sum(r.lost for r in records)
    held = sum(r.held for r in records)
    available = _available(result)
    return RunSummary(
        jobs=len(records),
        done=_count(records, Fate.DONE),
        refused=_count(records, Fate.REFUSED),
        unfinished=_count(records, Fate.UNFINISHED),
        mean=_mean(times),
        median=_quantile(times, 0.5),
        p95=_quantile(times, 0.95),
        p99=_quantile(times, 0.99),
        makespan=_makespan(records),
        wait=_mean(waits),
        wait_p95=_quantile(waits, 0.95),
        slowdown=_mean(_slowdowns(records)),
        rho_worst=float(rho.max()) if len(rho) else None,
        rho_unfair=float((rho > UNFAIR).mean()) if len(rho) else None,
        utilisation=held / available if available else None,
        useful=(held - lost) / available if available else None,
        fragmentation=_fragmentation(result),
        resizes=sum(r.resizes for r in records),
        preemptions=sum(r.preemptions for r in records),
        migrations=sum(r.migrations for r in records),
        failures=sum(r.failures for r in records),
        lost=lost / HOUR,
    )


def completion_times(records: Sequence[JobResult]) -> Floats:
    """Return s from submission to the end of each completed job, in order."""
    return np.array([r.ended - r.submitted for r in records if r.ended is not None and _done(r)])


def fairness(result: Result) -> Floats:
    """Return the finish-time fairness of each completed job: rho = T / (alone x max(1, contention)).

    T is its completion time in s; alone is in s, on the devices it asked for; contention is the mean
    over its life, submission to end, of devices asked for by live jobs / devices available. So rho is 1
    for a job that is as fast as with its fair share of the cluster, the definition of Themis (NSDI
    2020), with the contention of Shockwave (NSDI 2023): jobs / devices there, whose jobs are equal;
    devices asked for / devices here, the same where each asks for one. Jobs that take no time alone are
    ignored, and so are all without samples of the cluster.
    """
    jobs = [r for r in result.records if _done(r) and r.alone > 0]
    if not jobs or not result.samples:
        return np.array([])
    begin = np.array([r.submitted for r in jobs])
    end = np.array([r.ended if r.ended is not None else r.submitted for r in jobs])
    contention = ratio(_demand(result), capacity(result.samples)).mean(begin, end)
    alone = np.array([r.alone for r in jobs])
    rho: Floats = (end - begin) / (alone * np.maximum(1.0, contention))
    return rho


def capacity(samples: Sequence[ClusterSample]) -> StepFunction:
    """Return the devices over time; at least one, so that shares of a cluster that is down exist."""
    return StepFunction(_of(samples, "at"), np.maximum(1.0, _of(samples, "capacity")))


def sampled(samples: Sequence[ClusterSample], name: str) -> StepFunction:
    """Return one of the samples' figures over time."""
    return StepFunction(_of(samples, "at"), _of(samples, name))


def span(result: Result) -> tuple[float, float]:
    """Return the first submission and the last end, in s; the last sample if jobs are left."""
    live = [r for r in result.records if r.fate is not Fate.REFUSED]
    begin = min((r.submitted for r in live), default=0.0)
    last = [r.ended for r in live if r.ended is not None]
    if any(r.ended is None for r in live):
        last += [s.at for s in result.samples[-1:]]
    return begin, max([begin, *last])


def _demand(result: Result) -> StepFunction:
    live = [r for r in result.records if r.fate is not Fate.REFUSED]
    over = span(result)[1]
    begin = np.array([r.submitted for r in live])
    end = np.array([max(r.submitted, over) if r.ended is None else r.ended for r in live])
    return counted(begin, end, np.array([float(r.devices) for r in live]))


def _slowdowns(records: Sequence[JobResult]) -> Floats:
    alone = np.array([r.alone for r in records if _done(r)])
    slowdowns: Floats = completion_times(records) / np.maximum(SHORT, alone)
    return slowdowns


def _available(result: Result) -> float:
    """Return device-seconds from the first submission to the end."""
    begin, end = sampled(result.samples, "capacity").integral(np.array(span(result)))
    return float(end - begin)


def _fragmentation(result: Result) -> float | None:
    samples = result.samples
    begin, end = span(result)
    lasted = np.diff(np.clip(_of(samples, "at"), begin, end), append=end)
    free = _of(samples, "capacity") - _of(samples, "used")
    some = (free > 0) & (lasted > 0)
    if not some.any():
        return None
    return float(np.average(_of(samples, "stranded")[some] / free[some], weights=lasted[some]))


def _of(samples: Sequence[ClusterSample], name: str) -> Floats:
    return np.fromiter((getattr(s, name) for s in samples), float, len(samples))


def _makespan(records: Sequence[JobResult]) -> float | None:
    ends = [r.ended for r in records if r.ended is not None and _done(r)]
    if not ends:
        return None
    return max(ends) - min(r.submitted for r in records if r.fate is not Fate.REFUSED)


def _done(record: JobResult) -> bool:
    return record.fate is Fate.DONE and record.ended is not None


def _count(records: Sequence[JobResult], fate: Fate) -> int:
    return sum(r.fate is fate for r in records)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _quantile(values: Floats, level: float) -> float | None:
    return float(np.quantile(values, level)) if len(values) else None
