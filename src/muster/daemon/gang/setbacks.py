"""Losses and failures in a row, and how long a gang waits before it restarts.

The delay is 1 s after the first and doubles with each up to `LONGEST`. Short delays are spent on the
job's devices; before one of `GIVE_BACK` or more they are given back.
"""

from dataclasses import dataclass, replace

STEADY = 300.0
"""s of running after which the next setback counts as the first: as long as the longest delay."""
LONGEST = 300.0
GIVE_BACK = 30.0
"""s of delay from which the devices are given back: others can use them meanwhile."""


@dataclass(frozen=True, slots=True)
class Setbacks:
    """Setbacks since the job last ran for `STEADY` or wrote a checkpoint."""

    count: int = 0
    losses: int = 0
    """Those that are not its own fault."""
    last: float = 0.0
    """When the last one was counted."""
    delay: float = 0.0
    """s from then to its restart."""
    since: float = 0.0
    """When its tasks were last started together."""

    @property
    def until(self) -> float:
        """When it may restart."""
        return self.last + self.delay

    def after(self, at: float, *, fault: bool, live: bool = False) -> "Setbacks":
        """Return these and one more. `live`: the first is no reason to wait, since the others train."""
        steady = at - max(self.since, self.until) >= STEADY
        count = 1 if steady else self.count + 1
        losses = (0 if steady else self.losses) + (not fault)
        return replace(self, count=count, losses=losses, last=at, delay=delay(count - live))

    def over(self) -> "Setbacks":
        """Return none: the job has made progress."""
        return replace(self, count=0, losses=0)


def delay(count: int) -> float:
    """Return the s to wait after this many setbacks in a row."""
    return min(LONGEST, 2.0 ** min(count - 1, 60)) if count > 0 else 0.0
