"""A simulation that begins in the middle: a view with live jobs, and what is true of each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.core.cycle.cycle import Memory
from muster.model.view import View
from muster.sim.truth import Truth


@dataclass(frozen=True, slots=True)
class Underway:
    """A live job's truth, and how far it is."""

    truth: Truth
    done: float = 0.0
    """Work done, in the unit of its truth."""
    resumes: float = 0.0
    """s at which it goes on, after a pause."""
    safe: float = 0.0
    """Work done, and saved, when its current crew began."""
    run: int = 0
    """Runs so far."""
    changing: float = 0.0
    """s since its change in progress was ordered."""


@dataclass(frozen=True, slots=True)
class Midway:
    """Where a simulation begins."""

    now: float
    view: View
    lives: Mapping[int, Underway]
    """By number: one for each job of the view."""
    memory: Memory = field(default_factory=Memory)
    """What the last cycle left."""
