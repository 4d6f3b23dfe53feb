"""Changes of one job as seen from view to view: which, and how long each took."""

from dataclasses import dataclass
from enum import StrEnum

from muster.model.placement import Placement
from muster.model.view import JobState, Phase


class Transition(StrEnum):
    """What takes its time from an order on."""

    START = "start"
    """All tasks start."""
    JOIN = "join"
    """Some start, and others go on meanwhile."""
    LEAVE = "leave"
    """Some end, and others go on."""
    STOP = "stop"
    """All are stopped; the job goes on later."""
    END = "end"
    """All end after the last of the work is done."""


@dataclass(frozen=True, slots=True)
class Changing:
    """A change in progress, and since when, s."""

    change: Transition
    generation: int
    since: float


def changing(state: JobState, now: float, before: Changing | None) -> Changing | None:
    """Return the change that a job is in, None for none; `before`: the one it was in last."""
    change = _change(state)
    if change is None:
        return None
    if before is not None and (before.change, before.generation) == (change, state.generation):
        return before
    ordered = state.since if change is Transition.START and state.since is not None else now
    return Changing(change, state.generation, ordered)


def unseen(state: JobState, before: Placement | None) -> Transition | None:
    """Return what was done to a job that is in no change, between two views; `before`: what it held."""
    if state.placement is before:
        return None
    if before is None:
        return Transition.START
    if state.placement is None:
        return Transition.STOP
    return _moved(before, state.placement)


def _change(state: JobState) -> Transition | None:
    if state.phase is Phase.STARTING:
        return Transition.START
    if state.phase is Phase.PREEMPTING:
        return Transition.STOP
    if state.placement is not None and state.target is not None:
        return _moved(state.placement, state.target)
    return None


def _moved(before: Placement, after: Placement) -> Transition:
    return Transition.JOIN if set(after.slots) - set(before.slots) else Transition.LEAVE
