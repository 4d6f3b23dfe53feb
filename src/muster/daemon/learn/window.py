"""How long a step takes on the devices a job holds, measured over many of them."""

from dataclasses import dataclass, field

from muster.perf.learnt.learner import StepReport
from muster.wire.messages import StepDone

SKIPPED = 3
"""Steps at the begin of a generation that do not count: caches are cold, shares not yet balanced."""

ENOUGH_STEPS, ENOUGH_SECONDS = 10, 5.0
"""A first measurement is there after so many steps or s, whichever comes first: the mean of ten has a
third of one's jitter, and policies should not wait for a better one."""

LONGEST = 60.0
"""s of the longest window. Each is twice as long as the one before, from `ENOUGH_SECONDS` on: the first
correct a belief soon, the later ones smooth out checkpoints and the like."""


@dataclass(slots=True)
class Window:
    """The reports of one generation on one set of devices, since the last measurement."""

    generation: int
    asynchronous: bool = False
    _first: int | None = None
    """The first step of the generation that was reported here."""
    _needed: float = 0.0
    """s of a whole window; 0: the first is not done."""
    _begin: int | None = None
    _end: int = 0
    _reports: int = 0
    _seconds: float = 0.0
    _wait: float = 0.0
    _tasks: set[str] = field(default_factory=set)

    def add(self, done: StepDone) -> StepReport | None:
        """Take a worker's report in; a measurement, when there is enough for one."""
        if self._first is None:
            self._first = done.step
        seconds = done.seconds or done.forward + done.backward + done.wait
        if done.step < self._first + SKIPPED or not done.samples or seconds <= 0:
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
        # Of the last step only some may have reported: it counts when the next one is.
        return self._steps > ENOUGH_STEPS or span >= ENOUGH_SECONDS

    def _measured(self) -> StepReport:
        # Workers that wait for each other report the same steps, the others each their own: then
        # there are as many steps as reports, and k workers do k of them at a time.
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
