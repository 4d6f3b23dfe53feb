"""The question before a submission: when would this job start and end?"""

from dataclasses import dataclass, replace

from muster.core.state.evolve import evolve
from muster.foresight.effort import WORLDS
from muster.foresight.forecaster import Forecaster
from muster.foresight.play import JobForecast, Present, foresee
from muster.model.event import Submitted
from muster.model.job import Job
from muster.model.outlook import Outlook


@dataclass(frozen=True, slots=True)
class Submitting:
    """A job as if it were submitted now, and what is believed of it."""

    job: Job
    outlook: Outlook | None = None
    worlds: int = WORLDS

    def __call__(self, present: Present, forecaster: Forecaster) -> JobForecast:
        """Play the future with the job in it; nothing is remembered of that."""
        number, view = self.job.number, evolve(present.view, [Submitted(self.job, present.now)])
        if self.outlook is not None:
            view = replace(view, outlooks={**view.outlooks, number: self.outlook})
        found = foresee(replace(present, view=view), forecaster.past, self.worlds)[number]
        return forecaster.corrected(view.jobs[number], found)
