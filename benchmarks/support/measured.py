"""A job whose steps were timed with some numbers of workers.

For other numbers of workers a step is a line in the samples of one worker,

    T(w) = a + b / w        [s; w workers share one global batch]

through the two nearest timed ones; with a single one a = 0. Work is counted in steps; the `tail` after
the last step takes its time with any workers.
"""

from dataclasses import dataclass
from math import inf

from muster.model.outlook import Outlook, Table
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport
from muster.sim.truth import Ideal, JobPace, ideal_of

LEAST = 0.01
"""Least step as a part of the quickest timed one: a step takes some time."""


@dataclass(frozen=True, slots=True)
class TimedStep:
    """A timed step: workers, s, and s of it waiting for each other."""

    workers: int
    step: float
    sync: float = 0.0


@dataclass(frozen=True, slots=True)
class MeasuredJob:
    """A number of steps at measured speeds, then the tail."""

    steps: float
    timed: tuple[TimedStep, ...]
    """At least one, by rising number of workers."""
    tail: float = 0.0
    """s from the last step to the job's end."""
    most: int = 1
    """The most workers it can use."""

    @property
    def work(self) -> float:
        """Steps, then seconds."""
        return self.steps + self.tail

    def pace(self, crew: Held, done: float) -> JobPace:
        """Steps per s, up to the last."""
        if not crew.workers:
            return JobPace(0.0)
        if done < self.steps:
            return JobPace(1.0 / self.step(crew.workers), self.steps)
        return JobPace(1.0)

    def step(self, workers: int) -> float:
        """Return s of a step."""
        return self._between(workers, [(each.workers, each.step) for each in self.timed])

    def sync(self, workers: int) -> float:
        """Return s of a step spent waiting for each other; 0 alone."""
        known = [(each.workers, each.sync) for each in self.timed if each.workers > 1]
        if workers <= 1 or not known:
            return 0.0
        return min(known, key=lambda each: abs(each[0] - workers))[1]

    def _between(self, workers: int, known: list[tuple[int, float]]) -> float:
        if len(known) == 1:
            return known[0][1] * known[0][0] / workers
        (w1, t1), (w2, t2) = sorted(sorted(known, key=lambda each: abs(each[0] - workers))[:2])
        shared = (t1 - t2) / (1 / w1 - 1 / w2)
        quickest = min(step for _, step in known)
        return max(t1 + shared * (1 / workers - 1 / w1), LEAST * quickest)

    def shown(self, crew: Held, done: float) -> StepReport:
        """The time of a step, and its part that is waiting."""
        if not crew.workers:
            return StepReport(inf)
        return StepReport(self.step(crew.workers), self.sync(crew.workers))

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        """Steps left, and the speeds themselves."""
        rates = Table(tuple(1.0 / self.step(workers) for workers in range(1, self.most + 1)))
        here = None if crew is None else self.pace(crew, done).rate
        return Outlook(max(0.0, self.steps - done), rates, here=here)

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        """By the same speeds."""
        counts = range(max(1, fewest), most + 1)
        return ideal_of({each: self.steps * self.step(each) + self.tail for each in counts})
