"""How long a step takes on the devices that a job holds, averaged over many."""

from dataclasses import dataclass, field

from muster.perf.learnt.step_report import StepReport
from muster.wire.tasks.messages import StepDone

SKIPPED = 3
"""Steps at the begin of a formation that do not count: caches are cold, shares not yet balanced."""

ENOUGH_STEPS, ENOUGH_SECONDS = 10, 5.0
"""The first measurement takes this many steps or s, whichever comes first: the mean of ten steps has a
third of the jitter of one, and policies should not wait for a better one."""

LONGEST = 60.0
"""s of the longest window. Each is twice as long as the previous, from `ENOUGH_SECONDS` on: the first
correct a belief soon, later ones average over checkpoints and the like."""


@dataclass(slots=True)
class Window:
    """The reports of one formation on one set of devices, since the last measurement."""

    formation: int
    asynchronous: bool = False
    batch: int = 0
    """Samples of its steps, if they may change; smaller ones end an epoch and do not count."""
    _first: int | None = None
    """The first step of the formation that was reported here."""
    _needed: float = 0.0
    """s of a full window; 0 before the first is full."""
    _begin: int | None = None
    _end: int = 0
    _reports: int = 0
    _seconds: float = 0.0
    _wait: float = 0.0
    _tasks: set[str] = field(default_factory=set)

    def add(self, done: StepDone) -> StepReport | None:
        """Take in a worker's report; return a measurement if there is enough for one."""
        if self._first is None:
            self._first = done.step
        seconds = done.seconds or done.forward + done.backward + done.wait
        if done.step < self._first + SKIPPED or not done.samples or seconds <= 0:
            return None
        if self.batch and done.batch != self.batch:
            return None
        if self._begin is None:
            self._begin = done.step
        self._end = max(self._end, done.step)
        self._reports += 1
        self._seconds += seconds
        self._wait += min(done.wait, seconds)
        self._tasks.add(done.task)
        return self._measured() if self._is_full() else None

    @property
    def _steps(self) -> int:
        return self._end - (self._begin or 0) + 1

    def _is_full(self) -> bool:
        span = self._seconds / len(self._tasks)
        if self._needed:
            return span >= self._needed
        # Some workers may not have reported the last step yet: it counts with the next one.
        return self._steps > ENOUGH_STEPS or span >= ENOUGH_SECONDS

    def _measured(self) -> StepReport:
        # Synchronous workers report the same steps, asynchronous ones each their own: then every report
        # is a step, and k workers do k at a time.
        together = self._reports / (len(self._tasks) * self._steps) if self.asynchronous else 1.0
        report = StepReport(
            step=self._seconds / self._reports * together,
            sync=self._wait / self._reports * together if len(self._tasks) > 1 else 0.0,
        )
        self._needed = min(LONGEST, max(ENOUGH_SECONDS, 2 * self._needed))
        self._begin, self._end, self._reports = None, 0, 0
        self._seconds = self._wait = 0.0
        self._tasks.clear()
        return report
