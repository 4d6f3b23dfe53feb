"""What the centre asks of planners, and what a planner proposes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from muster.core.cycle.outcome import MigrationReport
from muster.core.cycle.sections import SectionShares
from muster.model.decision import Decision, Promise
from muster.model.pool import Entitlements
from muster.model.view import View
from muster.place.adaptive import Mood


@dataclass(frozen=True, slots=True)
class CycleQuestion:
    """One cycle, as all planners are asked about it."""

    view: View
    now: float
    entitled: Entitlements
    mood: Mood
    promises: tuple[Promise, ...]


@dataclass(frozen=True, slots=True)
class PlanningRequest:
    """One cycle, for one planner. The view that it is about comes beside it."""

    pools: frozenset[str]
    """Leaf pools to plan for."""
    now: float
    entitled: Entitlements
    mood: Mood
    promises: tuple[Promise, ...]


@dataclass(frozen=True)
class Proposal:
    """What a planner wants for the jobs of its pools, in the order in which it decided."""

    sections: tuple[SectionShares, ...]
    decisions: tuple[Decision, ...]
    growths: tuple[Decision, ...] = ()
    """Larger starts for gangs of `decisions`, if what is idle allows them."""
    promises: tuple[Promise, ...] = ()
    migrations: tuple[MigrationReport, ...] = ()

    @cached_property
    def pools(self) -> frozenset[str]:
        """The leaf pools it is about."""
        return frozenset[str]().union(*(section.pools for section in self.sections))


class Planners(Protocol):
    """Those who plan beside each other, each for its own pools."""

    def propose(self, asked: CycleQuestion) -> Sequence[Proposal]:
        """Return what they propose; pools for which none does are planned by the centre."""
        ...
