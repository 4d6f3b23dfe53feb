"""What every policy is: a function from a view to an ordered list of allocations.

There are two kinds. A policy that *queues* names jobs in order, each with its least and most workers;
the cycle starts gangs in that order, never stops one for another of its pool, and lets jobs grow into
what is left. A policy that *steers* says how many workers each job is to have now, no more and no
less: the cycle stops, shrinks, starts and grows until it is so. A job that either leaves out keeps what
it has.
"""

from dataclasses import dataclass
from math import inf
from typing import Protocol

from muster.model.pool import Entitlements
from muster.model.view import View


@dataclass(frozen=True, slots=True)
class Allocation:
    """Workers for one job: `least` before anybody gets more than their least, up to `most` after."""

    job: int
    least: int
    most: int
    servers: int | None = None
    """Parameter servers; None: as many as go with the workers."""
    device_type: str | None = None
    """The type of its devices; None: the job's own preference decides."""
    batch: int | None = None
    """The global batch it is to use; None: its own."""


def exactly(
    job: int,
    workers: int,
    *,
    servers: int | None = None,
    device_type: str | None = None,
    batch: int | None = None,
) -> Allocation:
    """What a steering policy says about a job; 0 workers: it is to hold nothing."""
    return Allocation(job, workers, workers, servers, device_type, batch)


@dataclass(frozen=True, slots=True)
class Shares:
    """A policy's answer, most urgent job first, and what it wants to remember."""

    allocations: tuple[Allocation, ...]
    memory: object = None
    steers: bool = False
    """Whether the allocations are exact (see above)."""
    again: float = inf
    """When the policy wants to be asked again even if nothing has happened, in s."""


class Policy(Protocol):
    """Pure: everything it knows comes in, everything it wants to keep goes out."""

    @property
    def name(self) -> str: ...

    @property
    def informed(self) -> bool:
        """Whether it looks at the view's outlooks; for one that does not they need not be made."""
        ...

    def allocate(
        self, view: View, entitlements: Entitlements, now: float, memory: object
    ) -> Shares: ...
