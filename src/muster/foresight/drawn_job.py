"""One draw of a job: the work that it turns out to be. Policies go on by what is believed now."""

from dataclasses import dataclass, replace

from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.perf.mixture import mixed_rate
from muster.sim.truth import Ideal, JobPace

_STEP = StepReport(step=1.0)


@dataclass(frozen=True, slots=True)
class DrawnJob:
    """A job that does `left` from now on, in the unit of what is believed of it, and then ends."""

    left: float
    believed: Outlook
    held: Held | None = None
    """Where it is now, and where its measured speed holds."""
    ending: float = 0.0
    """s from the last of the work to its end, on any devices."""

    @property
    def work(self) -> float:
        """What is left of it, then the s until its end."""
        return self.left + self.ending

    def pace(self, crew: Held, done: float) -> JobPace:
        if self.ending <= 0.0:
            return JobPace(self._rate(crew))
        return JobPace(self._rate(crew), self.left) if done < self.left else JobPace(1.0)

    def _rate(self, crew: Held) -> float:
        if self.believed.here is not None and crew == self.held:
            return self.believed.here
        if crew.beside:
            return mixed_rate(self.believed.speed, crew.by_type) * self.believed.mixing
        return self.believed.speed.rate(crew.device_type, crew.workers, crew.servers)

    def shown(self, crew: Held, done: float) -> StepReport:
        return _STEP

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        """Return what would be believed by then: nobody knows the draw.

        One that takes longer than it should is believed to go on for as long as was uncertain."""
        if done == 0.0 and crew is None and self.believed.here is None:
            return self.believed  # as for all that wait, in every cycle
        done = min(done, self.left)
        left = max(self.believed.left - done, self.believed.spread * done / 4)
        return replace(self.believed, left=left, here=None if crew is None else self._rate(crew))

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        return Ideal(self.left, self.left)
