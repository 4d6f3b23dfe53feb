"""The life of a job as one table; `docs/reference/lifecycle.md` is drawn from it.

Anything not in the table is an error. `Submitted` makes a job WAITING. A lost node that leaves the gang
whole has no entry: the job stays in its phase, smaller, unless it is STARTING (see `evolve`).
"""

from muster.model.event import (
    Cancelled,
    Checkpointed,
    DependencyMet,
    Ended,
    EndingChanged,
    Event,
    JobHeld,
    JobReleased,
    MigrateBegun,
    Migrated,
    NodeLost,
    PreemptBegun,
    Preempted,
    Replanned,
    Reprioritised,
    Requeued,
    Reshaped,
    ResizeBegun,
    Resized,
    Skipped,
    StartBegun,
    Started,
    TasksLost,
)
from muster.model.view import Phase

BORN = Phase.WAITING
"""The phase of a new job."""

NEXT: dict[tuple[Phase, type[Event]], Phase] = {
    (Phase.WAITING, StartBegun): Phase.STARTING,
    (Phase.WAITING, Reshaped): Phase.WAITING,
    (Phase.WAITING, Cancelled): Phase.ENDED,
    (Phase.WAITING, DependencyMet): Phase.WAITING,
    (Phase.WAITING, Skipped): Phase.ENDED,
    (Phase.STARTING, Started): Phase.RUNNING,
    (Phase.STARTING, Reshaped): Phase.STARTING,
    (Phase.STARTING, PreemptBegun): Phase.PREEMPTING,
    (Phase.STARTING, Requeued): Phase.WAITING,
    (Phase.STARTING, NodeLost): Phase.WAITING,
    (Phase.STARTING, Ended): Phase.ENDED,
    (Phase.STARTING, Cancelled): Phase.ENDED,
    (Phase.RUNNING, ResizeBegun): Phase.RESIZING,
    (Phase.RUNNING, MigrateBegun): Phase.MIGRATING,
    (Phase.RUNNING, PreemptBegun): Phase.PREEMPTING,
    (Phase.RUNNING, TasksLost): Phase.RUNNING,
    (Phase.RUNNING, Replanned): Phase.RUNNING,
    (Phase.RUNNING, Reshaped): Phase.RUNNING,
    (Phase.RUNNING, Checkpointed): Phase.RUNNING,
    (Phase.RUNNING, Requeued): Phase.WAITING,
    (Phase.RUNNING, NodeLost): Phase.WAITING,
    (Phase.RUNNING, Ended): Phase.ENDED,
    (Phase.RUNNING, Cancelled): Phase.ENDED,
    (Phase.RESIZING, Resized): Phase.RUNNING,
    (Phase.RESIZING, Reshaped): Phase.RESIZING,
    # Stopping a job does not wait for a change to end.
    (Phase.RESIZING, PreemptBegun): Phase.PREEMPTING,
    (Phase.RESIZING, Checkpointed): Phase.RESIZING,
    (Phase.RESIZING, Requeued): Phase.WAITING,
    (Phase.RESIZING, NodeLost): Phase.WAITING,
    (Phase.RESIZING, Ended): Phase.ENDED,
    (Phase.RESIZING, Cancelled): Phase.ENDED,
    (Phase.MIGRATING, Migrated): Phase.RUNNING,
    (Phase.MIGRATING, Reshaped): Phase.MIGRATING,
    (Phase.MIGRATING, PreemptBegun): Phase.PREEMPTING,
    (Phase.MIGRATING, Checkpointed): Phase.MIGRATING,
    (Phase.MIGRATING, Requeued): Phase.WAITING,
    (Phase.MIGRATING, NodeLost): Phase.WAITING,
    (Phase.MIGRATING, Ended): Phase.ENDED,
    (Phase.MIGRATING, Cancelled): Phase.ENDED,
    # The order to stop and the report that the gang runs may cross.
    (Phase.PREEMPTING, Started): Phase.PREEMPTING,
    (Phase.PREEMPTING, Preempted): Phase.WAITING,
    (Phase.PREEMPTING, Reshaped): Phase.PREEMPTING,
    (Phase.PREEMPTING, Checkpointed): Phase.PREEMPTING,
    (Phase.PREEMPTING, NodeLost): Phase.WAITING,
    (Phase.PREEMPTING, Ended): Phase.ENDED,
    (Phase.PREEMPTING, Cancelled): Phase.ENDED,
}

NEXT |= {
    (phase, event): phase
    for phase in Phase
    if phase is not Phase.ENDED
    for event in (JobHeld, JobReleased, Reprioritised, EndingChanged)
}


class LifecycleError(ValueError):
    """An event that cannot happen to a job in this phase."""

    def __init__(self, phase: Phase, event: type[Event]) -> None:
        super().__init__(f"{event.__name__} cannot happen to a job that is {phase}")
        self.phase = phase
        self.event = event


def advance(phase: Phase, event: type[Event]) -> Phase:
    """Return the phase after the event; raise LifecycleError if the table has no entry."""
    try:
        return NEXT[phase, event]
    except KeyError:
        raise LifecycleError(phase, event) from None
