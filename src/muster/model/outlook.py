"""What is believed about a live job: how much is left, and how fast it would go on what.

An outlook is a value that comes with the view, so that a recorded view gives the same decisions again.
Who makes it (what jobs have shown, or an oracle) is not the policies' affair. Work is counted in a unit
of the job's own (steps, epochs, seconds alone): only work over speed, a time in s, can be compared
between jobs.
"""

from dataclasses import dataclass
from typing import Protocol


class Speed(Protocol):
    """How fast a job would go, by what it is given: a value, never a connection to anything."""

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Work per s with so many tasks, close together; 0 where it cannot run so."""
        ...

    def batch(self, device_type: str, workers: int) -> int | None:
        """The global batch with which that rate is had; None: the job's own."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """Speed by the number of workers: `rates[k - 1]` is that of k, on every device type."""

    rates: tuple[float, ...]
    batches: tuple[int, ...] = ()
    """The best batch for each number; empty: the job's own."""

    def rate(self, device_type: str, workers: int, servers: int = 0) -> float:
        """Work per s; beyond the table that of its last entry."""
        if workers < 1:
            return 0.0
        return self.rates[min(workers, len(self.rates)) - 1]

    def batch(self, device_type: str, workers: int) -> int | None:
        """The best batch; None: the job's own."""
        return self.batches[min(max(workers, 1), len(self.batches)) - 1] if self.batches else None


@dataclass(frozen=True, slots=True)
class Outlook:
    """Work left of a job, its speed, and how sure that is."""

    left: float
    """Work left, in the unit of the speed."""
    speed: Speed
    spread: float = 0.0
    """Standard deviation of the logarithm of the time left: 0 is certain, 0.7 is a factor of two."""
    here: float | None = None
    """Work per s measured on the devices it holds now, where it runs: those may lie badly."""
