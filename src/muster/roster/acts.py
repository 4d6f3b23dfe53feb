"""The commands a roster gives its coordinator, and the terms of a job."""

from dataclasses import dataclass

from muster.wire.messages import Message

NO_ANSWER = "no answer"
"""How a task ended whose process was not seen to exit."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The settings of every plan of a job, and its tolerance for losses."""

    deadline: float = 30.0
    sync: str = "auto"
    owners: str = "reduce"
    balance: bool = True
    replace: bool = False
    """Start a new task for each one that is lost."""
    restarts: int = 0
    """How often all workers may be lost before the job fails."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Start a task."""

    task: str
    role: str


@dataclass(frozen=True, slots=True)
class Tell:
    """Send a message to a task."""

    task: str
    message: Message


@dataclass(frozen=True, slots=True)
class Kill:
    """End a task that is no longer needed."""

    task: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is over; `error` is empty when the training has finished."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `woken` with this formation after a delay."""

    seconds: float
    formation: int


@dataclass(frozen=True, slots=True)
class Check:
    """Call `check_plan` with this formation after a delay."""

    seconds: float
    formation: int


Act = Begin | Tell | Kill | Finish | Wake | Check
