"""Record a simulation: a record per job, samples of the cluster, who held what."""

from collections.abc import Iterable
from dataclasses import replace

from muster.model.cluster import NodeState
from muster.model.job import Job
from muster.model.view import Phase, View
from muster.planner.counts import plan_for
from muster.sim.life import Life
from muster.sim.result import ClusterSample, Fate, JobResult
from muster.sim.truth import Arrival, Truth
from muster.sim.worlds.fixed import Fixed

SAMPLES = 2048
"""Samples kept, twice what a wide screen can show; beyond that, every second one is dropped."""


class Samples:
    """Samples of the cluster over time, further apart as their number grows.

    Changes of capacity are always kept: the largest capacity, and when, is exact.
    """

    def __init__(self) -> None:
        self._kept: list[ClusterSample] = []
        self._spacing = 0.0
        self._most = SAMPLES

    def see(self, view: View, now: float, must: bool = False) -> None:
        """Keep the cluster after a moment, if far enough from the last sample."""
        if self._kept and now == self._kept[-1].at:
            self._kept.pop()
        elif self._kept and not must and now - self._kept[-1].at <= self._spacing:
            return
        self._kept.append(_sample(view, now))
        if len(self._kept) > self._most:
            self._thin(now)

    def _thin(self, now: float) -> None:
        kept = self._kept
        self._spacing = max(2 * self._spacing, (now - kept[0].at) / SAMPLES)
        self._kept = [
            sample
            for i, sample in enumerate(kept)
            if i % 2 == 0 or sample.capacity != kept[i - 1].capacity
        ]
        self._most = max(SAMPLES, 2 * len(self._kept))

    def all(self) -> tuple[ClusterSample, ...]:
        """Return the samples in order."""
        return tuple(self._kept)


def _sample(view: View, now: float) -> ClusterSample:
    free = capacity = 0
    for node in view.cluster.nodes:
        free += node.free.bit_count()
        if node.state is not NodeState.LOST:
            capacity += view.cluster.configuration_of(node).devices
    _, stranded = view.cluster.free_devices()
    waiting = sum(state.phase is Phase.WAITING for state in view.jobs.values())
    return ClusterSample(now, len(view.jobs) - waiting, waiting, capacity - free, capacity, stranded)


def record(life: Life, types: Iterable[str], ended: float | None) -> JobResult:
    """Return the record of an admitted job."""
    alone, best, least = ideals(life.job, life.truth, tuple(types))
    return JobResult(
        name=life.job.name,
        user=life.job.user,
        pool=life.job.pool,
        application=life.job.application,
        devices=plan_for(life.job, life.job.workers.gang).devices,
        submitted=life.submitted,
        started=life.began,
        ended=ended,
        fate=Fate.UNFINISHED if ended is None else Fate.DONE,
        alone=alone,
        best=best,
        least=least,
        run=life.seconds,
        paused=life.paused,
        held=life.held,
        lost=life.lost,
        resizes=life.resizes,
        preemptions=life.preemptions,
        migrations=life.migrations,
        failures=life.failures,
    )


def refusal(arrival: Arrival, types: Iterable[str]) -> JobResult:
    """Return the record of a job that could never run."""
    job = arrival.job
    truth = arrival.truth or Fixed(job.duration or 0.0, job.workers.gang)
    return replace(record(Life(job, truth, arrival.at), types, None), fate=Fate.REFUSED)


def ideals(job: Job, truth: Truth, types: tuple[str, ...]) -> tuple[float, float, float]:
    """Return s alone on its request, s alone on the best it could have, least device-seconds."""
    allowed = [t for t in job.device_types or types if t in types] or [""]
    gang, most = job.workers.gang, job.workers.most
    alone = min(truth.ideal(kind, gang, gang).shortest for kind in allowed)
    found = [truth.ideal(kind, gang, most) for kind in allowed]
    each = job.workers.need.devices
    return alone, min(i.shortest for i in found), min(i.cheapest for i in found) * each
