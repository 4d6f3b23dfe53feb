"""The time limit of a run: from its start, whatever restarts in between; waiting does not count."""

import signal

from muster.daemon.gang.commands import SetTimer, TellTask
from muster.daemon.gang.draft import ReactionDraft
from muster.daemon.gang.events import LimitNear, LimitReached
from muster.daemon.gang.steer import aim
from muster.daemon.gang.transitions import Goal, Trigger
from muster.model.duration import spelt
from muster.wire.tasks.messages import CheckpointNow

_ENDS = (Goal.RUN, Goal.RESTART, Goal.BROKEN)
"""Goals of a run that goes on without the limit."""


def set_limits(draft: ReactionDraft) -> None:
    """Set the timeouts of the current run: at its start, and when a daemon resumes it."""
    program, run, started = draft.job.job.program, draft.job.run, draft.job.started
    if program.time is None or started is None:
        return
    left = started + program.time - draft.now
    warning = left - min(program.warn, program.time / 2)
    if warning > 0:
        draft.do(SetTimer(warning, LimitNear(run)))
    draft.do(SetTimer(max(0.0, left), LimitReached(run)))


def warn(draft: ReactionDraft) -> None:
    """Warn the tasks that the limit is near: by a signal, else with a request for a checkpoint."""
    program = draft.job.job.program
    number = program.warn_signal or (None if draft.gang.live else program.checkpoint_signal)
    if draft.gang.goal is not Goal.RUN:
        return
    if number is not None:
        draft.signal(signal.Signals[number])
    elif draft.gang.live:
        for name in draft.sight.roster.members:
            draft.do(TellTask(name, CheckpointNow("time limit")))


def reach_limit(draft: ReactionDraft) -> None:
    """Fail a job whose run has taken as long as it may."""
    limit = draft.job.job.program.time
    if limit is not None and draft.gang.goal in _ENDS:
        aim(draft, Trigger.FAILED, f"time limit of {spelt(limit)} reached")
