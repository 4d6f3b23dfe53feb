"""The goals of a gang as one table; `docs/reference/gang.md` is generated from it.

A trigger without an entry changes nothing: a job that is finishing finishes, whatever is decided
meanwhile.
"""

from enum import StrEnum


class Goal(StrEnum):
    """What a gang does with its tasks."""

    RUN = "run"
    """Every slot has a task."""
    RESTART = "restart"
    """Stop all tasks, then start all of them, in their new places or after a delay."""
    BROKEN = "broken"
    """A task died that the others need: stop them all, then restart or fail."""
    PREEMPT = "preempt"
    """Stop all tasks, back to the queue."""
    CANCEL = "cancel"
    """Stop all tasks: the user asked for it."""
    FAIL = "fail"
    """Stop all tasks: the job has failed."""
    FINISH = "finish"
    """Let all tasks end: the training is complete."""
    CLEAR = "clear"
    """The run is over: remove what is left of it, then wait for the next start."""
    CLOSED = "closed"
    """No task is left and the job is over."""


class Trigger(StrEnum):
    """What can change a gang's goal."""

    CHANGED = "resized or migrated without the runtime"
    PREEMPTED = "preempted"
    STOP_ASKED = "stopped by its user"
    FAILED = "failed"
    FINISHED = "training complete"
    RUN_LOST = "too few tasks left on its nodes"
    TASK_DIED = "task died without the runtime"
    RETRIED = "broken, and its budget allows a restart"
    ORDERED = "task ordered"
    EMPTIED = "last task gone"


NEXT: dict[tuple[Goal, Trigger], Goal] = {
    (Goal.RUN, Trigger.CHANGED): Goal.RESTART,
    (Goal.RUN, Trigger.PREEMPTED): Goal.PREEMPT,
    (Goal.RUN, Trigger.STOP_ASKED): Goal.CANCEL,
    (Goal.RUN, Trigger.FAILED): Goal.FAIL,
    (Goal.RUN, Trigger.FINISHED): Goal.FINISH,
    (Goal.RUN, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.RUN, Trigger.TASK_DIED): Goal.BROKEN,
    # It had one task: nothing was left to stop.
    (Goal.RUN, Trigger.RETRIED): Goal.RESTART,
    # Its devices are given back while it waits to restart.
    (Goal.RUN, Trigger.EMPTIED): Goal.CLEAR,
    (Goal.BROKEN, Trigger.PREEMPTED): Goal.PREEMPT,
    (Goal.BROKEN, Trigger.STOP_ASKED): Goal.CANCEL,
    (Goal.BROKEN, Trigger.FAILED): Goal.FAIL,
    (Goal.BROKEN, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.BROKEN, Trigger.RETRIED): Goal.RESTART,
    (Goal.RESTART, Trigger.PREEMPTED): Goal.PREEMPT,
    (Goal.RESTART, Trigger.STOP_ASKED): Goal.CANCEL,
    (Goal.RESTART, Trigger.FAILED): Goal.FAIL,
    (Goal.RESTART, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.RESTART, Trigger.EMPTIED): Goal.CLEAR,
    (Goal.RESTART, Trigger.ORDERED): Goal.RUN,
    (Goal.PREEMPT, Trigger.STOP_ASKED): Goal.CANCEL,
    (Goal.PREEMPT, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.PREEMPT, Trigger.EMPTIED): Goal.CLEAR,
    (Goal.CANCEL, Trigger.EMPTIED): Goal.CLOSED,
    (Goal.FAIL, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.FAIL, Trigger.EMPTIED): Goal.CLOSED,
    # What a script does after its training counts as well.
    (Goal.FINISH, Trigger.FAILED): Goal.FAIL,
    (Goal.FINISH, Trigger.RUN_LOST): Goal.CLEAR,
    (Goal.FINISH, Trigger.EMPTIED): Goal.CLOSED,
    (Goal.CLEAR, Trigger.STOP_ASKED): Goal.CANCEL,
    (Goal.CLEAR, Trigger.ORDERED): Goal.RUN,
}


def advance(goal: Goal, trigger: Trigger) -> Goal:
    """Return the goal after a trigger; the same where the table has no entry."""
    return NEXT.get((goal, trigger), goal)
