"""A gang's reaction to an event, without clock, socket or process.

start      order a task for every slot; `Started` when all of them run (or train, see `settle`)
change     live: joiners start beside the others, the roster changes the members, leavers go;
           else: all are stopped, and all start again in their new places
stop       ask for a checkpoint, SIGTERM, SIGKILL; `Preempted` or `Cancelled` when all are gone
failure    live: replace the task; else: stop the others and restart all of them, after a delay, while
           the budget lasts; then the gang ends as a whole
limit      warn the tasks, then stop them: the job fails
"""

from muster.daemon.gang.draft import Reaction, ReactionDraft
from muster.daemon.gang.ends import exited, node_lost
from muster.daemon.gang.events import (
    Exited,
    GangEvent,
    Heard,
    KillLeft,
    LimitNear,
    LimitReached,
    Rested,
    Resumed,
    RosterTimeout,
    Terminate,
    Timeout,
    Unheard,
)
from muster.daemon.gang.exits import failed
from muster.daemon.gang.limits import reach_limit, set_limits, warn
from muster.daemon.gang.settle import fix_size, settle
from muster.daemon.gang.state import GangState, Sight
from muster.daemon.gang.steer import (
    act,
    aim,
    begin,
    end_grace,
    fill,
    kill_left,
    new_roster,
    resize_roster,
    share,
    stop,
    tell_ending,
)
from muster.daemon.gang.transitions import Goal, Trigger
from muster.model.event import (
    EndingChanged,
    MigrateBegun,
    NodeLost,
    PreemptBegun,
    Replanned,
    ResizeBegun,
    StartBegun,
)
from muster.model.task import RuntimeSeen, StopAsked, TaskId, TaskStarted
from muster.model.view import JobState, Phase
from muster.roster.acts import Wake
from muster.wire.tasks.messages import Failed, Hello, Message


def react(gang: GangState, sight: Sight, job: JobState, event: GangEvent, now: float) -> Reaction:
    """Return the reaction to an event; facts among events are already in `gang` and `job`."""
    draft = ReactionDraft(gang, sight, job, now)
    _handle(draft, event)
    if draft.gang.live and draft.gang.goal is Goal.RUN:
        share(draft)
        tell_ending(draft)
    settle(draft)
    return draft.reaction()


def _handle(draft: ReactionDraft, event: GangEvent) -> None:
    match event:
        case StartBegun():
            set_limits(draft)
            if not draft.gang.tasks and draft.gang.goal in (Goal.RUN, Goal.CLEAR):
                begin(draft)
        case ResizeBegun() | MigrateBegun():
            _change(draft)
        case StopAsked(force=True):
            stop(draft, kill=True)
        case PreemptBegun() | StopAsked():
            _stop_if_new(draft)
        case NodeLost():
            node_lost(draft, event.node)
        case TaskStarted():
            _note_started(draft, event.task)
        case Exited():
            exited(draft, event)
        case Heard():
            _hear(draft, event.message)
        case Resumed():
            _resume(draft)
        case _ if not isinstance(event, Replanned | EndingChanged):  # the roster is told of all below
            _time_out(draft, event)


def _note_started(draft: ReactionDraft, task: TaskId) -> None:
    if draft.gang.find(task) is not None:
        draft.see(running=draft.sight.running | {task})


def _change(draft: ReactionDraft) -> None:
    if draft.gang.goal is Goal.RUN and draft.gang.live:
        act(draft, resize_roster(draft))
    else:
        _stop_if_new(draft)


def _stop_if_new(draft: ReactionDraft) -> None:
    """Stop the tasks for the goal that a fact has set, once."""
    if draft.gang.goal not in (Goal.RUN, Goal.CLEAR, draft.sight.stopping):
        stop(draft)


def _hear(draft: ReactionDraft, message: Message) -> None:
    if isinstance(message, Hello):
        if not draft.gang.live:
            draft.note(RuntimeSeen(draft.key, draft.now))
        act(draft, draft.roster.hello(message))
    elif draft.gang.live:
        acts = draft.roster.heard(message)
        over = draft.roster.over is not None
        if isinstance(message, Failed) and over and draft.gang.goal is Goal.RUN:
            aim(draft, Trigger.FAILED, failed(message.task, message.error, message.trace))
        act(draft, acts)


def _time_out(draft: ReactionDraft, event: Timeout) -> None:
    """Handle a timeout, unless it was set for an earlier stop, generation, run or roster."""
    match event:
        case Rested():
            draft.see(resting=0.0)  # `settle` restarts, or waits for what is left of the delay
        case LimitNear(run=number) if number == draft.job.run:
            warn(draft)
        case LimitReached(run=number) if number == draft.job.run:
            reach_limit(draft)
        case Terminate(stop=number) if number == draft.sight.stops:
            end_grace(draft)
        case KillLeft(stop=number) if number == draft.sight.stops:
            kill_left(draft)
        case Unheard(generation=number) if number == draft.job.generation:
            if not draft.gang.live and draft.gang.goal is Goal.RUN:
                fix_size(draft)
        case RosterTimeout(act=wanted, roster=number) if number == draft.sight.rosters:
            roster = draft.roster
            decide = roster.woken if isinstance(wanted, Wake) else roster.check_plan
            act(draft, decide(wanted.formation))


def _resume(draft: ReactionDraft) -> None:
    """Continue where the previous daemon was; the executor will report which tasks run."""
    draft.replace_roster(new_roster(draft))
    set_limits(draft)
    gang, job = draft.gang, draft.job
    if gang.goal is Goal.RUN and gang.failures > job.job.program.failures:
        aim(draft, Trigger.FAILED, gang.error, gang.exit_code)
    elif gang.goal is Goal.RUN and job.phase is not Phase.WAITING:
        act(draft, resize_roster(draft))
        fill(draft)
    elif gang.goal in (Goal.RUN, Goal.CLEAR):
        aim(draft, Trigger.RUN_LOST, kill=True)
    else:
        stop(draft)
