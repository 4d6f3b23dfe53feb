"""Beliefs made only of what jobs have shown: see `perf.learnt`."""

from collections.abc import Mapping

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.batches import BatchRange
from muster.perf.learnt.held import Held
from muster.perf.learnt.learner import Learner, StepReport
from muster.sim.truth import Shown, Truth


class Learnt:
    """Never looks at the truth."""

    def __init__(
        self,
        node_devices: Mapping[str, int],
        ranges: Mapping[str, BatchRange] | None = None,
        *,
        free_batch: bool = False,
    ) -> None:
        """Devices on a node by type; limits of batches by application; whether batches may change."""
        self._learner = Learner(node_devices, ranges, free_batch=free_batch)

    def watch(self, job: Job, crew: Held, shown: Shown, done: float) -> None:
        """A job that runs on this crew and has done so much work reported this."""
        report = StepReport(shown.step, shown.sync, shown.gain, shown.noise)
        self._learner.watch(job, crew, report, done)

    def ended(self, job: Job, work: float) -> None:
        """A job has ended after so much work."""
        self._learner.ended(job, work)

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """What is believed of a live job."""
        return self._learner.outlook(job, crew, done)
