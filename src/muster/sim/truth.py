"""The truth about a simulated job: its work and its speed."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held
from muster.perf.learnt.step_report import StepReport


@dataclass(frozen=True, slots=True)
class JobPace:
    """A job's speed: work per s, until `until` of its work is done."""

    rate: float
    until: float = inf


@dataclass(frozen=True, slots=True)
class Ideal:
    """Lower bounds of any schedule: s, and worker-seconds, for all the work."""

    shortest: float
    cheapest: float


def ideal_of(seconds: Mapping[int, float]) -> Ideal:
    """Return the bounds from the s of all the work by number of workers."""
    return Ideal(min(seconds.values()), min(workers * s for workers, s in seconds.items()))


class Truth(Protocol):
    """One job's truth. Immutable: progress is kept elsewhere."""

    @property
    def work(self) -> float:
        """Its total work, in its own unit."""
        ...

    def pace(self, crew: Held, done: float) -> JobPace:
        """Return its speed on these devices with `done` work done, undisturbed by neighbours."""
        ...

    def shown(self, crew: Held, done: float) -> StepReport:
        """Return what it would report there, without error."""
        ...

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        """Return the exact outlook with `done` work done, `here` being on this crew."""
        ...

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        """Return the bounds with these workers of a type, over all placements and batches."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job, when it is submitted in s, and its truth (None: only its duration is known)."""

    at: float
    job: Job
    truth: Truth | None = None
