"""What is left of simulated jobs by the losses that they report, fitted as the daemon fits them."""

from dataclasses import replace
from random import Random

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.epochs.convergence import Target
from muster.perf.epochs.follow import EpochsLeft, LossFollower
from muster.perf.learnt.held import Held
from muster.perf.learnt.lengths import Left
from muster.sim.beliefs import Oracle
from muster.sim.truth import Truth
from muster.sim.worlds.curves import Curves

NOISE = 0.005
"""Standard deviation of an epoch's reported loss, as a share of it: of the recorded trainings of
examples/training half have less."""


class SeenLosses:
    """Follows the losses of all live jobs; work is counted in epochs."""

    def __init__(self) -> None:
        self._followers: dict[str, LossFollower] = {}

    def left(self, job: Job, truth: Truth, done: float) -> Left | None:
        """Return the work left by the losses of the epochs done; None for a job that reports none."""
        if not isinstance(truth, Curves):  # hot path: every cycle asks this of every job
            return None
        found = self.epochs_left(job, truth, done)
        return None if found is None else Left(found.epochs.mean, found.spread)

    def epochs_left(self, job: Job, truth: Truth, done: float) -> EpochsLeft | None:
        """Return the epochs left; None for a job that reports no losses."""
        if not isinstance(truth, Curves) or truth.target is None:
            return None
        follower = self._of(job, truth.target)
        # The losses of an epoch are known when the next one has begun.
        for epoch in range(follower.means.epochs, int(done) + 1):
            noise = Random(f"{job.name}/{epoch}").gauss(1.0, NOISE)
            follower.note(epoch, truth.curve.loss(epoch + 1) * noise)
        return follower.left(done)

    def forget(self, job: Job) -> None:
        """Forget a job that has ended."""
        self._followers.pop(job.name, None)

    def _of(self, job: Job, target: Target) -> LossFollower:
        follower = self._followers.get(job.name)
        if follower is None:
            follower = self._followers[job.name] = LossFollower()
            follower.aim(target)
        return follower


class FromLosses(Oracle):
    """Knows true speeds, and of the work left only what the losses say."""

    def __init__(self) -> None:
        self._losses = SeenLosses()

    def ended(self, job: Job, work: float) -> None:
        """Forget its losses."""
        self._losses.forget(job)

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """Return the truth's speed with the predicted work left."""
        known, left = truth.outlook(done, crew), self._losses.left(job, truth, done)
        return known if left is None else replace(known, left=left.middle, spread=left.spread)
