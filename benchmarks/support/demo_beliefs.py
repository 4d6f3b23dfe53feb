"""What the daemon would believe: the simulator's learnt beliefs, told no sooner what jobs are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from muster.daemon.learn.beliefs import UNKNOWN
from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.changes import ChangeKind
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.learnt import Learnt
from muster.sim.truth import Truth


@dataclass(frozen=True, slots=True)
class Captured:
    """What a training says of itself when it begins."""

    steps: int
    batch: int


class Heard:
    """Learnt, but that jobs are told apart as in the daemon (`daemon.learn.Beliefs`).

    A job's length and batch are known from its first start on. Before, its user's guess of its steps
    counts where another of its application has begun, else their guess of its time.
    """

    def __init__(self, node_devices: Mapping[str, int], captured: Mapping[str, Captured]) -> None:
        self._learnt = Learnt(node_devices)
        self._captured = captured
        self._begun: set[str] = set()
        self._batches: dict[str | None, int] = {}
        """By application that has begun."""

    def watch(self, job: Job, crew: Held, shown: StepReport, done: float) -> None:
        """Take in a report of a job that has done this much work."""
        self._learnt.watch(self._told(job, crew), crew, shown, done)

    def paused(self, job: Job, change: ChangeKind, seconds: float) -> None:
        """Take in what a change has cost."""
        self._learnt.paused(job, change, seconds)

    def ended(self, job: Job, work: float) -> None:
        """A job has ended: of its work the steps count."""
        self._learnt.ended(self._told(job, None), float(self._captured[job.name].steps))

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """What is believed of a live job."""
        steps = min(done, float(self._captured[job.name].steps))
        return self._learnt.outlook(self._told(job, crew), truth, crew, steps)

    def _told(self, job: Job, crew: Held | None) -> Job:
        """The job as the learner knows it."""
        if crew is not None and job.name not in self._begun:
            self._begun.add(job.name)
            self._batches[job.application] = self._captured[job.name].batch
        if job.application not in self._batches:
            # Nobody knows how long its steps are: seconds with its gang, of one, are its work.
            return replace(job, application=UNKNOWN, work=job.duration)
        steps = float(self._captured[job.name].steps) if job.name in self._begun else job.work
        return replace(job, work=steps, batch=self._batches[job.application])
