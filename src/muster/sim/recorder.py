"""Writes down what a simulation does: a record for each job, samples of the cluster, who held what."""

from collections.abc import Iterable

from muster.model.cluster import NodeState
from muster.model.job import Job
from muster.model.view import Phase, View
from muster.planner.counts import plan_for
from muster.sim.life import Life
from muster.sim.result import Fate, JobRecord, Sample
from muster.sim.truth import Arrival, Truth
from muster.sim.worlds.fixed import Fixed

SAMPLES = 2048
"""Samples kept: twice what a wide screen can show. When there are more, every second one goes."""


class Samples:
    """Samples of the cluster over time, ever further apart as there come to be more.

    One where the capacity changes is always taken and never goes: what was there at most, and when, is
    exact.
    """

    def __init__(self) -> None:
        self._kept: list[Sample] = []
        self._spacing = 0.0
        self._most = SAMPLES

    def see(self, view: View, now: float, must: bool = False) -> None:
        """The cluster once all of a moment has happened: keep it, if it is far enough from the last."""
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

    def all(self) -> tuple[Sample, ...]:
        """In order of time."""
        return tuple(self._kept)


def _sample(view: View, now: float) -> Sample:
    free = capacity = 0
    for node in view.cluster.nodes:
        free += node.free.bit_count()
        if node.state is not NodeState.LOST:
            capacity += view.cluster.configuration_of(node).devices
    _, stranded = view.cluster.free_devices()
    waiting = sum(state.phase is Phase.WAITING for state in view.jobs.values())
    return Sample(now, len(view.jobs) - waiting, waiting, capacity - free, capacity, stranded)


def record(life: Life, types: Iterable[str], ended: float | None) -> JobRecord:
    """What became of a job that was admitted."""
    alone, best, least = ideals(life.job, life.truth, tuple(types))
    return JobRecord(
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


def refusal(arrival: Arrival, types: Iterable[str]) -> JobRecord:
    """The record of a job that could never run."""
    job = arrival.job
    alone, best, least = ideals(job, arrival.truth, tuple(types))
    return JobRecord(
        name=job.name,
        user=job.user,
        pool=job.pool,
        application=job.application,
        devices=plan_for(job, job.workers.gang).devices,
        submitted=arrival.at,
        started=None,
        ended=None,
        fate=Fate.REFUSED,
        alone=alone,
        best=best,
        least=least,
    )


def ideals(job: Job, truth: Truth | None, types: tuple[str, ...]) -> tuple[float, float, float]:
    """s alone on what it asked for, s alone on the best it could have, device-seconds at least."""
    truth = truth or Fixed(job.duration or 0.0, job.workers.gang)
    allowed = [t for t in job.device_types or types if t in types] or [""]
    gang, most = job.workers.gang, job.workers.most
    alone = min(truth.ideal(kind, gang, gang).shortest for kind in allowed)
    found = [truth.ideal(kind, gang, most) for kind in allowed]
    each = job.workers.need.devices
    return alone, min(i.shortest for i in found), min(i.cheapest for i in found) * each
