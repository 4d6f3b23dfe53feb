"""What a gang may do: note facts, and order what is to be done once they are in the journal."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from muster.model.placement import Slot
from muster.model.task import Fact, TaskId
from muster.wire.messages import Message


@dataclass(slots=True)
class Task:
    """A task that was ordered and has not been seen to end."""

    id: TaskId
    name: str
    slot: Slot
    runs: bool = False


class Hands(Protocol):
    """Facts are journalled before anything that was ordered after them is done."""

    def now(self) -> float:
        """The time, in s."""
        ...

    def note(self, fact: Fact) -> None:
        """Journal a fact."""
        ...

    def order(self, task: Task) -> None:
        """Start a task."""
        ...

    def signal(self, task: TaskId, number: int) -> None:
        """Signal a task and whatever it has started."""
        ...

    def tell(self, task: str, message: Message) -> None:
        """Say something to a task of the job, by its name there."""
        ...

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        """Do something when so much time has passed."""
        ...

    def tail(self, task: TaskId) -> str:
        """The last lines that a task has printed."""
        ...
