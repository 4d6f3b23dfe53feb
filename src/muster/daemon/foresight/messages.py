"""What the daemon and the process that plays futures tell each other."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from muster.core.cycle.cycle import Memory
from muster.core.planners.delta import ViewDelta
from muster.foresight.forecaster import Forecaster
from muster.foresight.kept import KeptForecast
from muster.foresight.past import PastJob
from muster.foresight.play import JobForecast, Present

Question = Callable[[Present, Forecaster], Any]
"""Anything picklable that is called with the present and what was learnt of the past: a function of a
module, a `functools.partial` of one, a frozen dataclass with `__call__`."""


class ForesightError(RuntimeError):
    """Why a question has no answer."""


@dataclass(frozen=True, slots=True)
class SeenView:
    """The view after a cycle, as what has changed since the last one."""

    change: ViewDelta
    now: float
    stopped: frozenset[int] = frozenset()
    """Jobs that are gone because somebody stopped them: they would have taken longer."""


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question about the last view."""

    number: int
    question: Question
    policy: str
    memory: Memory
    yields: bool = False
    """Whether other questions may be answered in between."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of a question."""

    number: int
    value: Any = None
    problem: str = ""
    """Why there is no answer; empty: there is."""
    seconds: float = 0.0
    """Of processor time."""


@dataclass(frozen=True, slots=True)
class RememberedPast:
    """What a process starts with: what the store knows of the past."""

    since: float | None = None
    """s since when jobs have been followed."""
    jobs: tuple[PastJob, ...] = ()
    kept: tuple[KeptForecast, ...] = ()


@dataclass(frozen=True, slots=True)
class Forecasts:
    """The answer to the question about all jobs."""

    forecasts: dict[int, JobForecast]
    kept: tuple[KeptForecast, ...] = ()
    """Those to be held to account."""
    ended: tuple[PastJob, ...] = ()
    """Jobs that have ended since the last answer."""
    seconds: float = 0.0
    """Of processor time that they took."""
