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
    """Similar jobs; 0: its own progress."""
    came: float | None = None

    @property
    def as_past(self) -> PastForecast:
        """As evidence for the next ones."""
        return PastForecast(
            self.made, self.raw, kinds_of(self.pool, self.mark, self.rests_on), self.came
        )


def kinds_of(pool: str, mark: str, rests_on: int) -> tuple[Hashable, ...]:
    """Return what a forecast is corrected by, the narrowest first: pool, how far the job is, and what
    it rests on."""
    return (pool, mark, rests_on > 0), (mark, rests_on > 0), (mark,), ()
