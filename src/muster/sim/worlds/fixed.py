"""A job of which only the run time on its requested workers is known.

Work is counted in seconds on those workers, so the rate is 1. With fewer it cannot run, more do not
help. Traces of production clusters (Philly) say no more.
"""

from dataclasses import dataclass
from functools import lru_cache

from muster.model.outlook import Outlook, Table
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Ideal, JobPace

_STOPPED, _RUNNING = JobPace(0.0), JobPace(1.0)
_STEP = StepReport(step=1.0)
"""Its steps are unknown: it reports a second of work as one."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """Runs for `duration` s on `workers` workers, wherever placed."""

    duration: float
    workers: int = 1

    @property
    def work(self) -> float:
        return self.duration

    def pace(self, crew: Held, done: float) -> JobPace:
        return _RUNNING if crew.workers >= self.workers else _STOPPED

    def shown(self, crew: Held, done: float) -> StepReport:
        return _STEP

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        here = None if crew is None else self.pace(crew, done).rate
        return Outlook(max(0.0, self.duration - done), _speed(self.workers), here=here)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        return Ideal(self.duration, self.duration * self.workers)


@lru_cache(maxsize=1024)
def _speed(workers: int) -> Table:
    """Return speed 0 below this many workers, 1 from there on; shared by jobs of a size."""
    return Table((0.0,) * (workers - 1) + (1.0,))
