"""What a gang reacts to: facts about its job, reports of its tasks, their messages, timeouts."""

from dataclasses import dataclass

from muster.model.event import MigrateBegun, NodeLost, PreemptBegun, ResizeBegun, StartBegun
from muster.model.task import StopAsked, TaskExited, TaskStarted
from muster.roster.acts import Check, Wake
from muster.wire.messages import Message


@dataclass(frozen=True, slots=True)
class Exited:
    """A task's process is gone."""

    report: TaskExited
    tail: str = ""
    """The last lines it printed, where it failed."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A task has sent a message."""

    message: Message


@dataclass(frozen=True, slots=True)
class Resumed:
    """A daemon was started and found the gang in the journal; the executor will report its tasks."""


@dataclass(frozen=True, slots=True)
class Terminate:
    """The grace before SIGTERM is over."""

    stop: int
    """Number of the stop: the timeouts of an earlier one do nothing."""


@dataclass(frozen=True, slots=True)
class KillLeft:
    """The grace before SIGKILL is over."""

    stop: int


@dataclass(frozen=True, slots=True)
class Unheard:
    """A job that could be resized live has not said a word for long enough."""

    generation: int


@dataclass(frozen=True, slots=True)
class RosterTimeout:
    """A time that the roster wanted to be told of is over."""

    act: Wake | Check
    roster: int
    """Number of the roster that asked: a later one knows nothing of it."""


Timeout = Terminate | KillLeft | Unheard | RosterTimeout
GangFact = StartBegun | ResizeBegun | MigrateBegun | PreemptBegun | StopAsked | NodeLost
"""Facts that others note and that gangs react to."""
GangEvent = GangFact | TaskStarted | Exited | Heard | Resumed | Timeout
