"""Record a simulation: a record per job, samples of the cluster, who held what."""

from collections.abc import Iterable
from dataclasses import replace

from muster.model.cluster import Cluster
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
        self._seen: tuple[Cluster, tuple[int, int, int]] | None = None
        """The devices of the last cluster: most moments change nothing of it."""

    def see(self, view: View, now: float, must: bool = False) -> None:
        """Keep the cluster after a moment, if far enough from the last sample."""
        if self._kept and now == self._kept[-1].at:
            self._kept.pop()
        elif self._kept and not must and now - self._kept[-1].at <= self._spacing:
            return
        self._kept.append(self._sample(view, now))
        if len(self._kept) > self._most:
            self._thin(now)

    def _sample(self, view: View, now: float) -> ClusterSample:
        if self._seen is None or self._seen[0] is not view.cluster:
            self._seen = view.cluster, _devices(view.cluster)
        used, capacity, stranded = self._seen[1]
        phases = [state.phase for state in view.jobs.values()]
        waiting = phases.count(Phase.WAITING)
        return ClusterSample(now, len(phases) - waiting, waiting, used, capacity, stranded)

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


def _devices(cluster: Cluster) -> tuple[int, int, int]:
    """Return the devices in use, all that are there, and those free on partly used nodes."""
    free = sum([node.free.bit_count() for node in cluster.nodes])
    capacity = sum(cluster.present().values())
    return capacity - free, capacity, cluster.free_devices()[1]


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
