"""The commands a roster gives its coordinator, and the terms of a job."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from muster.wire.tasks.messages import Message

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
class Sharing:
    """How the work is shared, as decided for these tasks; by task."""

    sync: str
    owners: Mapping[str, float]
    """Parts of the parameters; empty: from the links."""
    batch: Mapping[str, int]
    """Samples of each worker; empty: equal at first."""
    tasks: frozenset[str]

    def shares(self, members: Sequence[str]) -> tuple[float, ...]:
        """Return the owners' parts by rank."""
        return tuple(self.owners.get(name, 0.0) for name in members) if self.owners else ()

    def parts(self, members: Sequence[str]) -> tuple[int, ...]:
        """Return the samples of each worker by rank."""
        return tuple(self.batch[name] for name in members if name in self.batch)


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
