"""How soon facts call for a cycle: at once, or with the next one that is run anyway."""

from collections.abc import Iterable
from math import inf
from typing import Protocol, get_args

from muster.daemon.loop.dependents import ENDS
from muster.model.event import (
    Checkpointed,
    JobHeld,
    MigrateBegun,
    PreemptBegun,
    Replanned,
    ResizeBegun,
    StartBegun,
    Started,
)
from muster.model.sweep import MemberSubmitted, SweepFact
from muster.model.task import Fact, TaskFact
from muster.model.view import Phase, View

_BEGUN = (StartBegun, Started, ResizeBegun, MigrateBegun, PreemptBegun, Replanned)
_CALM = (*_BEGUN, Checkpointed, JobHeld)
"""What was decided takes its course: nothing is asked for, and nothing has come free."""


_CALLS_FOR_NONE = (*get_args(TaskFact), *get_args(SweepFact))


class Delays(Protocol):
    """s from a change to a cycle; as `Pace` has them."""

    @property
    def gather(self) -> float: ...
    @property
    def calm(self) -> float: ...


def cycle_within(facts: Iterable[Fact], view: View, delays: Delays) -> float:
    """Return the s within which these facts call for a cycle; `view`: after them."""
    changes = [fact for fact in facts if not isinstance(fact, _CALLS_FOR_NONE) or _enters(fact)]
    if not changes:
        return inf
    urgent = [fact for fact in changes if not isinstance(fact, _CALM)]
    if not urgent or (all(isinstance(fact, ENDS) for fact in urgent) and not _is_wanted(view)):
        return delays.calm
    return delays.gather


def _enters(fact: Fact) -> bool:
    """Whether a sweep has put a job into the queue."""
    return isinstance(fact, MemberSubmitted)


def _is_wanted(view: View) -> bool:
    """Whether some job could use what has come free."""
    return any(state.phase is Phase.WAITING or state.job.elastic for state in view.jobs.values())
