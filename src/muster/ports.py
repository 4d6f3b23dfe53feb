"""What a driver must be given. Tiny on purpose: a fake of each ships with the tests."""

from collections.abc import Sequence
from typing import Protocol

from muster.model.decision import Decision
from muster.model.event import Event
from muster.model.job import Job


class Clock(Protocol):
    """Tells the time; the only one who may."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...


class Executor(Protocol):
    """Carries decisions out, on however many machines, and reports what became of them."""

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Begin what was decided; returns at once, the outcome comes as an event."""
        ...

    def collect(self) -> Sequence[Event]:
        """Facts since the last call, oldest first."""
        ...
