"""What is believed about a live job: work left, and speed by what it is given.

Outlooks are values inside the view, so a recorded view gives the same decisions again. Policies do not
know whether they were learnt or come from an oracle. Work is in a unit of the job's own (steps, epochs,
seconds alone): only work over speed, a time in s, compares between jobs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol


class Speed(Protocol):
    """A job's speed by what it is given: a plain value."""

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Return the work per s with these tasks close together; 0 if it cannot run so."""
        ...

    def batch(self, device_type: str, workers: int) -> int | None:
        """Return the global batch that gives this rate; None: the job's own."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """Speed by number of workers: `rates[k - 1]` is that of k, on every device type."""

    rates: tuple[float, ...]
    batches: tuple[int, ...] = ()
    """The best batch for each number; empty: the job's own."""

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Return the work per s; beyond the table, its last entry."""
        if workers < 1:
            return 0.0
        return self.rates[min(workers, len(self.rates)) - 1]

    def all_rates(self, workers: Iterable[int]) -> list[float]:
        """Return the same for several numbers of workers, all positive."""
        rates, last = self.rates, len(self.rates)
        return [rates[(count if count < last else last) - 1] for count in workers]

    def with_batch(self, workers: int, batch: int) -> "Table":
        """Return the same with another batch for a number of workers."""
        at = min(max(workers, 1), len(self.batches)) - 1
        return replace(self, batches=(*self.batches[:at], batch, *self.batches[at + 1 :]))

    def only(self, parts: Sequence[float], most: float) -> "Table":
        """Return the same, 0 where the part of each of k workers, `parts[k - 1]`, exceeds a limit."""
        if max(parts, default=0.0) <= most:
            return self
        rates = (self.rate("", k) if part <= most else 0.0 for k, part in enumerate(parts, 1))
        return replace(self, rates=tuple(rates))

    def batch(self, device_type: str, workers: int) -> int | None:
        """The best batch; None: the job's own."""
        return self.batches[min(max(workers, 1), len(self.batches)) - 1] if self.batches else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Work left, speed, and their uncertainty."""

    left: float
    """Work left, in the unit of the speed."""
    speed: Speed
    spread: float = 0.0
    """Standard deviation of the logarithm of the time left: 0 is certain, 0.7 is a factor of two."""
    here: float | None = None
    """Work per s measured on its current placement, which may be a bad one."""
    resize: float | None = None
    """s without progress when it is resized live, as measured; None: its `pause`."""
    start: float | None = None
    """s without progress when it is started, again or for the first time; None: its `pause`."""
    slowed: float = 1.0
    """The factor by which neighbours make its steps longer unless it has whole nodes: those it has, or
    such as jobs have on average."""
    untried: tuple[str, ...] = ()
    """Device types on which no job like it was measured: its speed there is that of others."""
    mixing: float = 1.0
    """Its measured speed on devices of several types, over what `perf.mixture` predicts."""
    told: bool = False
    """Whether the work left is what the job itself says or shows, not what others like it took."""
    tells: int = 1
    """Jobs of whose length its end would tell, itself among them; 1: of no other."""
    timed: bool = True
    """Whether anything tells how long its steps take. Otherwise its work is a number of steps of
    unknown length: enough to compare numbers of devices, but no time."""
