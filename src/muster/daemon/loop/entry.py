"""What is posted to the loop: facts and events, and who waits for them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from muster.daemon.gang.events import GangEvent
from muster.model.task import Fact
from muster.store.batch import SubmissionKey
from muster.wire.api.records import ActRecord

if TYPE_CHECKING:
    from muster.daemon.loop.state import State


@dataclass(slots=True)
class Entry:
    """Facts that are accepted or refused together, and events for gangs to react to."""

    facts: list[Fact] = field(default_factory=list)
    events: list[tuple[int, GangEvent]] = field(default_factory=list)
    """Each with its job, whose gang may have ended by the time they are read."""
    then: list[Callable[[], None]] = field(default_factory=list)
    """Called once the facts are in the journal."""
    done: asyncio.Future[None] | None = None
    """For a caller who waits, and gets an error at once; without one, writing is retried."""
    key: SubmissionKey | None = None
    """Of a submission."""
    act: ActRecord | None = None
    """For the audit log, written with the facts."""
    current: "Callable[[State], list[Fact]] | None" = None
    """Makes the facts again when they are folded: a cycle may have changed the job meanwhile."""
    refused: Callable[[], None] | None = None
    """Called if nothing was done."""

    def fail(self, error: Exception) -> None:
        """Report to the caller that nothing was done."""
        if self.refused is not None:
            self.refused()
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    def succeed(self) -> None:
        """Report to the caller that the facts are in the journal."""
        if self.done is not None and not self.done.done():
            self.done.set_result(None)
