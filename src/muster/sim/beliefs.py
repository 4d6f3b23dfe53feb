"""Where policies' outlooks come from: an oracle, or what jobs have reported."""

from typing import Protocol

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Truth


class OutlookSource(Protocol):
    """Learns from reports of jobs and predicts."""

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        """Learn from a report of a running job with `done` work done."""
        ...

    def paused(self, job: Job, change: ChangeKind, seconds: float) -> None:
        """Learn the s without progress that a change has cost a job."""
        ...

    def ended(self, job: Job, work: float) -> None:
        """Learn the total work of an ended job."""
        ...

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return what is believed of a live job; only an oracle uses the truth."""
        ...


class Oracle:
    """Returns the truth."""

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        """Nothing to learn."""

    def paused(self, job: Job, change: ChangeKind, seconds: float) -> None:
        """Nothing to learn."""

    def ended(self, job: Job, work: float) -> None:
        """Nothing to learn."""

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return the truth."""
        return truth.outlook(done, crew)
