"""What a gang reacts to: facts about its job, reports of its tasks, their messages, timeouts."""

from dataclasses import dataclass

from muster.model.event import (
    EndingChanged,
    MigrateBegun,
    NodeLost,
    PreemptBegun,
    Replanned,
    ResizeBegun,
    StartBegun,
)
from muster.model.task import StopAsked, TaskExited, TaskStarted
from muster.roster.acts import Check, Wake
from muster.wire.tasks.messages import Message


@dataclass(frozen=True, slots=True)
class Exited:
    """A task's process is gone."""

    report: TaskExited
    tail: str = ""
    """The last lines of its log, if it failed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A task has sent a message."""

    message: Message


@dataclass(frozen=True, slots=True)
class Resumed:
    """The daemon has restarted; the executor will report the gang's tasks."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The grace period before SIGTERM is over."""

    stop: int
    """Number of the stop: timeouts of an earlier one are ignored."""


@dataclass(frozen=True, slots=True)
class KillLeft:
    """The grace period before SIGKILL is over."""

    stop: int


@dataclass(frozen=True, slots=True)
class Unheard:
    """A job that could be resized live has never spoken."""

    generation: int


@dataclass(frozen=True, slots=True)
class RosterTimeout:
    """A timeout that the roster set is over."""

    act: Wake | Check
    roster: int
    """Number of the roster that set it: a later one ignores it."""


@dataclass(frozen=True, slots=True)
class Rested:
    """The delay before a restart is over."""


@dataclass(frozen=True, slots=True)
class LimitNear:
    """The time limit of a run is near."""

    run: int
    """Generation at which the run began: timeouts of an earlier one are ignored."""


@dataclass(frozen=True, slots=True)
class LimitReached:
    """The time limit of a run is reached."""

    run: int


Timeout = Terminate | KillLeft | Unheard | RosterTimeout | Rested | LimitNear | LimitReached
GangFact = (
    StartBegun
    | ResizeBegun
    | MigrateBegun
    | Replanned
    | EndingChanged
    | PreemptBegun
    | StopAsked
    | NodeLost
)
"""Facts from outside the gang that it reacts to."""
GangEvent = GangFact | TaskStarted | Exited | Heard | Resumed | Timeout
