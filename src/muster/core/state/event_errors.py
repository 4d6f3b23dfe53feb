"""What an event can have against the state it is applied to."""

from muster.model.placement import Slot
from muster.model.view import JobState


class EventError(ValueError):
    """An event that does not fit the state it is applied to."""


class StaleEventError(EventError):
    """An event of another generation than its job is in or enters."""

    def __init__(self, job: int, named: int, expected: int) -> None:
        super().__init__(f"job {job}: the event names generation {named}, not {expected}")
        self.job = job
        self.named = named
        self.expected = expected


class UnknownNameError(EventError):
    """An event about an unknown job, node or configuration set."""


class NameTakenError(EventError):
    """A name or number that is already in use."""


class OverbookedError(EventError):
    """A slot that its node has no room for."""

    def __init__(self, job: int, slot: Slot, lacks: str) -> None:
        super().__init__(f"job {job}, {slot.role} {slot.index}: node {slot.node!r} {lacks}")
        self.job = job
        self.slot = slot


def is_stale(state: JobState, named: int, oldest: int) -> bool:
    """Whether a report is of an older generation than counts; one from the future is rejected."""
    if named > state.generation:
        raise StaleEventError(state.number, named, state.generation)
    return named < oldest
