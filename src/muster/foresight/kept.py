"""A forecast that is kept until it comes true."""

from collections.abc import Hashable
from dataclasses import dataclass

from muster.foresight.calibrate import PastForecast
from muster.foresight.quantiles import TimeInterval

BEGIN, FINISH = "start", "finish"
"""What is forecast."""


@dataclass(frozen=True, slots=True)
class KeptForecast:
    """What was said about a job's start or finish, when, and what came of it. Times in s."""

    number: int
    """Of the job."""
    what: str
    """`BEGIN` or `FINISH`."""
    mark: str
    """When in the job's life it was made: one of `marks.MARKS`."""
    made: float
    said: TimeInterval
    """As users saw it."""
    raw: TimeInterval
    """As it was played, before it was corrected."""
    pool: str
    waited: bool
    """Whether the job was waiting."""
    rests_on: int
    """Like jobs; 0: its own progress."""
    came: float | None = None

    @property
    def kinds(self) -> tuple[Hashable, ...]:
        """Its kinds, the narrowest first."""
        return kinds_of(self.pool, self.waited, self.rests_on)

    @property
    def as_past(self) -> PastForecast:
        """As evidence for the next ones."""
        return PastForecast(self.made, self.raw, self.kinds, self.came)


def kinds_of(pool: str, waited: bool, rests_on: int) -> tuple[Hashable, ...]:
    """Return what a forecast is corrected by: pool, whether the job waits, and what it rests on."""
    kind = waited, rests_on > 0
    return (pool, *kind), kind, ()
