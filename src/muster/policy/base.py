"""What every policy is: a function from a view to an ordered list of allocations."""

from dataclasses import dataclass
from typing import Protocol

from muster.model.pool import Entitlements
from muster.model.view import View


@dataclass(frozen=True, slots=True)
class Allocation:
    """Workers for one job: `least` before anybody gets more than their least, up to `most` after."""

    job: str
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Shares:
    """A policy's answer, most urgent job first, and what it wants to remember."""

    allocations: tuple[Allocation, ...]
    memory: object = None


class Policy(Protocol):
    """Pure: everything it knows comes in, everything it wants to keep goes out."""

    @property
    def name(self) -> str: ...

    def allocate(
        self, view: View, entitlements: Entitlements, now: float, memory: object
    ) -> Shares: ...
