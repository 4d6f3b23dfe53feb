"""Outlooks learnt only from what jobs report: see `perf.learnt`."""

from collections.abc import Mapping

from muster.model.cluster import Cluster
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.model.profile import ModelProfile
from muster.perf.learnt.batches import BatchRange
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.foretold import Foreteller
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner
from muster.perf.learnt.step_report import StepReport
from muster.sim.losses import SeenLosses
from muster.sim.truth import Truth


class Learnt:
    """Uses what the truth shows, never the truth itself."""

    def __init__(
        self,
        node_devices: Mapping[str, int],
        ranges: Mapping[str, BatchRange] | None = None,
        *,
        free_batch: bool = False,
        cluster: Cluster | None = None,
        models: Mapping[str, ModelProfile] | None = None,
    ) -> None:
        """Devices per node by type; batch limits by application; whether batches may change; the
        cluster, for what models foretell; models by application, where jobs do not name them."""
        self._learner = Learner(node_devices, ranges, free_batch=free_batch)
        self._losses = SeenLosses()
        self._foreteller = Foreteller(cluster) if cluster is not None else None
        self._models = models or {}

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        """Learn from a report of a running job with `done` work done."""
        self._learner.watch(job, crew, shown, done)

    def paused(self, job: Job, change: ChangeKind, seconds: float) -> None:
        """Learn the s without progress that a change has cost a job."""
        self._learner.paused(job, change, seconds)

    def ended(self, job: Job, work: float) -> None:
        """Learn the total work of an ended job."""
        self._losses.forget(job)
        self._learner.ended(job, work)

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return what is believed of a live job."""
        model = job.model or self._models.get(job.application or "")
        if self._foreteller is not None and model is not None:
            self._learner.foresee(job, self._foreteller.of(model), model.micro_batch)
        return self._learner.outlook(job, crew, done, self._losses.left(job, truth, done))
