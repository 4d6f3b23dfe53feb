"""The commands of a gang: carried out once the facts beside them are in the journal."""

from dataclasses import dataclass

from muster.daemon.gang.events import Timeout
from muster.model.task import TaskId
from muster.wire.tasks.messages import Message


@dataclass(frozen=True, slots=True)
class LaunchTask:
    """Start the process of a task that was ordered."""

    task: TaskId


@dataclass(frozen=True, slots=True)
class SignalTask:
    """Signal a task and all its processes."""

    task: TaskId
    number: int


@dataclass(frozen=True, slots=True)
class TellTask:
    """Send a message to a task."""

    task: str
    message: Message


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Return the timeout to the gang after this many s."""

    seconds: float
    timeout: Timeout


Command = LaunchTask | SignalTask | TellTask | SetTimer
