"""The interface of a policy: a function from a view to an ordered list of allocations.

A policy that *queues* lists jobs in order, each with its least and most workers; the cycle starts gangs
in that order, never stops one for another of its pool, and lets jobs grow into what is left. A policy
that *steers* sets the exact number of workers of each job: the cycle stops, shrinks, starts and grows
jobs to match. Jobs left out keep what they have.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

from muster.model.pool import Entitlements
from muster.model.reason import Measure
from muster.model.view import View


class Allocation(NamedTuple):
    """Workers for one job: `least` before any job gets more than its least, then up to `most`.

    A tuple, which is made in a seventh of the time: one for every job in every cycle."""

    job: int
    least: int
    most: int
    servers: int | None = None
    """Parameter servers; None: in proportion to the workers."""
    device_type: str | None = None
    """Device type; None: by the job's preference."""
    batch: int | None = None
    """Global batch; None: its own."""
    beside: tuple[tuple[str, int], ...] = ()
    """Further workers on devices of other types, by type, for a job that may mix them."""


def exactly(
    job: int,
    workers: int,
    *,
    servers: int | None = None,
    device_type: str | None = None,
    batch: int | None = None,
) -> Allocation:
    """Return a steering policy's allocation; 0 workers: the job is to hold nothing."""
    return Allocation(job, workers, workers, servers, device_type, batch)


@dataclass(frozen=True, slots=True)
class Merits:
    """How a policy ranked the jobs: for people, who ask why one comes before another."""

    measure: Measure
    ranked: tuple[tuple[int, float], ...]
    """Jobs with their value, most urgent first."""
    urgent: frozenset[int] = frozenset()
    """Those that come before all others, whatever their value."""


@dataclass(frozen=True, slots=True)
class Shares:
    """A policy's answer, most urgent job first, and its memory."""

    allocations: tuple[Allocation, ...]
    memory: object = None
    steers: bool = False
    """Whether the allocations are exact (see above)."""
    again: float = inf
    """When the policy wants another cycle even if nothing happens, in s."""
    merits: Callable[[], Merits] | None = field(default=None, compare=False)
    """Returns how the jobs were ranked: worked out only where reasons are given. None: by priority and
    age."""
    asks: bool = False
    """Whether it asks for every cycle that it needs (`again`); else there is one every so often while
    jobs wait, and one whenever devices come free."""


class Policy(Protocol):
    """Pure: all it knows is passed in, all it remembers is returned."""

    @property
    def name(self) -> str: ...

    @property
    def informed(self) -> bool:
        """Whether it reads the view's outlooks; otherwise they need not be computed."""
        ...

    def allocate(
        self, view: View, entitlements: Entitlements, now: float, memory: object
    ) -> Shares: ...
