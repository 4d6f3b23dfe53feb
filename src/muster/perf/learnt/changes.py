"""What changes cost: s without progress of a live resize and of a start, learnt apart.

A job's own are believed first, then those of its application, for a start then those of any: most of it
is spawning processes and importing the same libraries. The newest counts most, since state grows and
caches fill. Unmeasured ones are None: the job's declared `pause` counts.
"""

from dataclasses import dataclass, field
from enum import Enum
from math import exp, isfinite, log

WEIGHT = 0.5
"""Of the newest in the mean of the logarithms."""
ANY = -1
"""In place of a job: all of them."""
LEAST = 1e-3
"""s: a pause shorter than this costs nothing that could be measured."""


class ChangeKind(Enum):
    """What was done to a job."""

    RESIZE = "resize"
    """Tasks joined or left while it ran."""
    START = "start"
    """All its tasks were started, for the first time or again."""


@dataclass(slots=True)
class ChangeCosts:
    """Mean costs by job and by application, s."""

    _resizes: dict[str | int, float] = field(default_factory=dict)
    _starts: dict[str | int, float] = field(default_factory=dict)
    version: int = 0
    """Grows with every measurement."""

    def add(self, job: int, application: str, change: ChangeKind, seconds: float) -> None:
        """Take in the s without progress of one change."""
        if not (isfinite(seconds) and seconds >= 0):
            return
        self.version += 1
        cost, known = log(max(seconds, LEAST)), self._of(change)
        for who in (job, application, ANY) if job else (application, ANY):
            before = known.get(who)
            mean = cost if before is None else WEIGHT * cost + (1 - WEIGHT) * log(before)
            known[who] = exp(mean)

    def cost(self, job: int, application: str, change: ChangeKind) -> float | None:
        """Return the expected s without progress; None: nothing was measured."""
        resize, start = self.all(job, application)
        return start if change is ChangeKind.START else resize

    def all(self, job: int, application: str) -> tuple[float | None, float | None]:
        """Return the same of a resize and of a start."""
        resizes, starts = self._resizes, self._starts  # hot path: of every job in every cycle
        resize, start = resizes.get(job), starts.get(job)
        if resize is None:
            resize = resizes.get(application)
        if start is None:
            start = starts.get(application)
        return resize, starts.get(ANY) if start is None else start

    def forget(self, job: int) -> None:
        """Drop a job; its application keeps what it has shown."""
        self._resizes.pop(job, None)
        self._starts.pop(job, None)

    def _of(self, change: ChangeKind) -> dict[str | int, float]:
        return self._starts if change is ChangeKind.START else self._resizes
