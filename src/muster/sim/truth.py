"""What is true of a job, whatever anybody believes: how much work it is, and how fast it goes."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Protocol

from muster.model.job import Job
from muster.model.outlook import Outlook
from muster.perf.learnt.held import Held


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a job goes: work per s, until so much of its work is done."""

    rate: float
    until: float = inf


@dataclass(frozen=True, slots=True)
class Shown:
    """What a job reports of itself while it runs, as measured: never quite the truth."""

    step: float
    """s of one step."""
    sync: float | None = None
    """The part of it that is synchronising, where that is measured."""
    gain: float = 1.0
    """Work that one step does, in the job's unit."""
    noise: float | None = None
    """Samples at which the gradient's noise equals its signal (Pollux' phi), where measured."""


@dataclass(frozen=True, slots=True)
class Ideal:
    """Bounds that no schedule beats: s for all the work, and worker-seconds for all of it."""

    shortest: float
    cheapest: float


def ideal_of(seconds: Mapping[int, float]) -> Ideal:
    """From the s that all the work takes on each number of workers."""
    return Ideal(min(seconds.values()), min(workers * s for workers, s in seconds.items()))


class Truth(Protocol):
    """One job's truth. Immutable: how far the job has come is kept elsewhere."""

    @property
    def work(self) -> float:
        """All its work, in its own unit."""
        ...

    def pace(self, crew: Held, done: float) -> Pace:
        """How fast it goes on this crew once so much is done, undisturbed by neighbours."""
        ...

    def shown(self, crew: Held, done: float) -> Shown:
        """What it would report of itself there, measured without error."""
        ...

    def outlook(self, done: float, crew: Held | None = None) -> Outlook:
        """What one who knows everything would say once so much is done, `here` being this crew."""
        ...

    def ideal(self, device_type: str, fewest: int, most: int) -> Ideal:
        """The best that so many workers of a type could do, wherever they lie, whatever its batch."""
        ...


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job, when it is submitted in s, and its truth (None: its duration is all there is to know)."""

    at: float
    job: Job
    truth: Truth | None = None
