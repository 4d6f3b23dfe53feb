"""What a coordinator can be told to do, and on which terms."""

from dataclasses import dataclass

from muster.wire.messages import Message

NO_ANSWER = "no answer"
"""How a task went whose process has not been seen to end."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What every plan of this job says, and how much trouble it may take."""

    deadline: float = 30.0
    sync: str = "auto"
    owners: str = "reduce"
    balance: bool = True
    replace: bool = False
    """Start another task for each one that is lost."""
    restarts: int = 0
    """How often all workers may be lost before the job has failed."""


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
    """End a task that nobody counts on any more."""

    task: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The job is over; `error` is empty when the training has finished."""

    error: str = ""


@dataclass(frozen=True, slots=True)
class Wake:
    """Call `woken` with this formation when so many seconds have passed."""

    seconds: float
    formation: int


@dataclass(frozen=True, slots=True)
class Check:
    """Call `check_plan` with this formation when so many seconds have passed."""

    seconds: float
    formation: int


Act = Begin | Tell | Kill | Finish | Wake | Check
