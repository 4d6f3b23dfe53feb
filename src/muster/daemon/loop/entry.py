"""What is posted together: facts and events, what is done once they are safe, who is told."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from muster.daemon.gang.events import GangEvent
from muster.model.task import Fact


@dataclass(slots=True)
class Entry:
    """Facts that stand or fall together, and events for gangs to react to."""

    facts: list[Fact] = field(default_factory=list)
    events: list[tuple[int, GangEvent]] = field(default_factory=list)
    """Each with its job; the gang may be gone by the time they are read."""
    then: list[Callable[[], None]] = field(default_factory=list)
    """Called when the facts are in the journal, never before."""
    done: asyncio.Future[None] | None = None
    """Somebody waits for it and is told at once if it cannot be; else it is tried until it can."""
    key: tuple[str, str, int] | None = None
    """User, idempotency key and number of a submission."""

    def fail(self, error: Exception) -> None:
        """Tell whoever waits that it was not carried out."""
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    def succeed(self) -> None:
        """Tell whoever waits that it is safe."""
        if self.done is not None and not self.done.done():
            self.done.set_result(None)
