"""What policies are told: by an oracle, or only what jobs have shown so far."""

from typing import Protocol

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.sim.truth import Shown, Truth


class Beliefs(Protocol):
    """Learns from what jobs show, and says what is to be expected of a job."""

    def watch(self, job: Job, crew: Held, shown: Shown, done: float) -> None:
        """A job that runs on this crew and has done so much work reported this."""
        ...

    def ended(self, job: Job, work: float) -> None:
        """A job has ended after so much work."""
        ...

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """What is believed of a live job; only an oracle looks at the truth."""
        ...


class Oracle:
    """Knows everything."""

    def watch(self, job: Job, crew: Held, shown: Shown, done: float) -> None:
        """There is nothing to learn."""

    def ended(self, job: Job, work: float) -> None:
        """Nor here."""

    def outlook(self, job: Job, truth: Truth, crew: Held | None, done: float) -> Outlook:
        """The truth."""
        return truth.outlook(done, crew)
