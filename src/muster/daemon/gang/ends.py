"""How a gang handles the end of a task or the loss of a node."""

from muster.daemon.gang.budget import is_over_budget, why_over
from muster.daemon.gang.draft import ReactionDraft
from muster.daemon.gang.events import Exited
from muster.daemon.gang.exits import blame, cause, is_fault, words
from muster.daemon.gang.settle import are_workers_done
from muster.daemon.gang.steer import act, aim, end_training, resize_roster, terminate_now
from muster.daemon.gang.transitions import Goal, Trigger
from muster.model.task import TaskEnded, TaskExited, TaskOrdered
from muster.model.view import Phase

MAX_START_ATTEMPTS = 3
"""Consecutive tasks that may be lost before they train; one more, and the job fails."""
TAILS = 8
"""Tasks of a broken gang whose last lines are journalled."""


def exited(draft: ReactionDraft, event: Exited) -> None:
    """Handle the exit of a task's process."""
    task, report = draft.gang.find(event.report.task), event.report
    if task is None:
        return
    if draft.gang.goal is not Goal.RUN:
        _ended_while_stopping(draft, task, event)
    elif not report.begun and report.code is None:
        _retry_order(draft, task, event)
    else:
        _ended_while_running(draft, task, event)


def node_lost(draft: ReactionDraft, node: str) -> None:
    """Drop the tasks on a lost node; a job that must start over clears the rest."""
    how = f"node {node} is lost"
    gone = [each for each in draft.gang.tasks if each.slot.node == node]
    over, live = draft.job.phase is Phase.WAITING, draft.gang.live
    if draft.job.job.program.at_most_once and (over or not live):
        gone = []  # they may run where nobody sees them: the executor tells when they cannot
    for task in gone:
        _drop(draft, TaskExited(task.task, draft.now, error=how), lost=over or live)
    if over:
        aim(draft, Trigger.RUN_LOST, kill=True)
    elif gone and not live and draft.gang.goal is Goal.RUN:
        aim(draft, Trigger.TASK_DIED)
    elif live:
        for task in gone:
            act(draft, draft.roster.exited(task.task.name, how))
        if draft.gang.goal is Goal.RUN:
            act(draft, resize_roster(draft))


def _drop(
    draft: ReactionDraft, report: TaskExited, tail: str = "", *, fault: bool = False, lost: bool = False
) -> None:
    draft.see(running=draft.sight.running - {report.task})
    draft.note(TaskEnded(draft.key, report, draft.now, tail, fault, lost))


def _ended_while_running(draft: ReactionDraft, task: TaskOrdered, event: Exited) -> None:
    if draft.gang.live:
        _live_task_ended(draft, task, event)
    elif event.report.code == 0:
        _drop(draft, event.report)
        if are_workers_done(draft):
            end_training(draft, "")
    else:
        # The others cannot do without it: a process group of fixed ranks does not take in a new one.
        _drop(draft, event.report, _kept(draft, event))
        aim(draft, Trigger.TASK_DIED)


def _kept(draft: ReactionDraft, event: Exited) -> str:
    """Return the last lines to journal: those of the first deaths, one of which is the cause."""
    return event.tail if len(draft.gang.deaths) < TAILS else ""


def _live_task_ended(draft: ReactionDraft, task: TaskOrdered, event: Exited) -> None:
    report, name = event.report, task.task.name
    leaving = task.slot not in draft.placement.slots
    forgiven = not leaving and _is_forgiven(draft, name, event)
    fault = is_fault(report) and not leaving and not forgiven
    lost = report.code is None and not (fault or leaving or forgiven)
    joined = name in draft.sight.roster.members
    _drop(draft, report, event.tail if fault else "", fault=fault, lost=lost)
    gang, program = draft.gang, draft.job.job.program
    if is_over_budget(gang, program):
        why = why_over(gang, program, blame(report, event.tail))
        aim(draft, Trigger.FAILED, why, report.code)
        return
    act(draft, draft.roster.exited(name, words(report)))
    if lost and not joined and draft.gang.goal is Goal.RUN:
        _retry_start(draft)


def _is_forgiven(draft: ReactionDraft, name: str, event: Exited) -> bool:
    """Whether a newcomer failed, with or without a word, and the others train on."""
    if draft.sight.roster.is_forgiven(name):
        return True
    report = event.report
    failed = is_fault(report) or report.oom
    return failed and draft.roster.can_spare(name, cause(report, event.tail))


def _retry_order(draft: ReactionDraft, task: TaskOrdered, event: Exited) -> None:
    """Order a task again that never began: the order was lost, or the daemon that gave it.

    Where that does not help, as on a full disk, it is a loss like any other: later may be better.
    """
    draft.see(start_failures=draft.sight.start_failures + 1)
    if draft.sight.start_failures <= MAX_START_ATTEMPTS * len(draft.placement.slots):
        _drop(draft, event.report)
        draft.order(task.task.name, task.slot)
    else:
        draft.see(start_failures=0)
        _ended_while_running(draft, task, event)


def _retry_start(draft: ReactionDraft) -> None:
    """Replace a task that was lost before it trained."""
    draft.see(start_failures=draft.sight.start_failures + 1)
    if draft.sight.start_failures <= MAX_START_ATTEMPTS:
        act(draft, resize_roster(draft))


def _ended_while_stopping(draft: ReactionDraft, task: TaskOrdered, event: Exited) -> None:
    report, goal = event.report, draft.gang.goal
    _drop(draft, report, _kept(draft, event) if goal is Goal.BROKEN else "")
    if report.code == 0 and not draft.gang.live and not draft.sight.warned:
        draft.see(finished=are_workers_done(draft))
    if draft.gang.live and goal in (Goal.PREEMPT, Goal.CANCEL):
        act(draft, draft.roster.exited(task.task.name, words(report)))
    elif goal is Goal.FINISH and is_fault(report):
        draft.see(stopping=Goal.FAIL)  # let the others complete what they do after the training
        aim(draft, Trigger.FAILED, blame(report, event.tail), report.code)
    if not draft.has_workers:
        terminate_now(draft)
