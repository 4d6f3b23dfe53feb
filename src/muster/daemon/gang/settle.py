"""After each event: is the gang as decided, gone, or permanently short of tasks?"""

from dataclasses import replace

from muster.daemon.gang.budget import is_over_budget, why_over
from muster.daemon.gang.commands import SetTimer
from muster.daemon.gang.draft import ReactionDraft
from muster.daemon.gang.events import Unheard
from muster.daemon.gang.exits import blame, is_fault
from muster.daemon.gang.setbacks import GIVE_BACK
from muster.daemon.gang.state import fold
from muster.daemon.gang.steer import aim, begin, place, rested
from muster.daemon.gang.transitions import Goal, Trigger
from muster.daemon.gang.verdict import first_cause
from muster.model.event import (
    Cancelled,
    Ended,
    Migrated,
    Outcome,
    Preempted,
    Requeued,
    Reshaped,
    Resized,
    Started,
    TasksLost,
)
from muster.model.placement import Placement
from muster.model.task import RunBroken
from muster.model.view import Phase

UNHEARD = 120.0
"""s after which a job whose processes all run, but never speak, is taken for one without the runtime:
importing torch takes 3 s, on a busy machine 30."""

COMPLETES: dict[Phase, type[Started | Resized | Migrated]] = {
    Phase.STARTING: Started,
    Phase.RESIZING: Resized,
    Phase.MIGRATING: Migrated,
}
"""The fact that completes a job's change, by phase."""


def settle(draft: ReactionDraft) -> None:
    """Conclude, report a completed change, or give back lost slots."""
    if draft.gang.goal is not Goal.RUN:
        _conclude(draft)
        return
    unplaced = draft.sight.unplaced
    draft.see(unplaced=())
    for wanted in unplaced:
        place(draft, wanted)
    completed = COMPLETES.get(draft.job.phase)
    if completed is not None and (_is_up(draft) or _is_short(draft)):
        draft.note(completed(draft.key, draft.job.generation, draft.now))
        draft.see(start_failures=0)
    if draft.job.phase not in COMPLETES and _is_short(draft):
        _give_back(draft)
    if draft.gang.live and not draft.gang.tasks and draft.sight.unplaced:
        _requeue_if_long(draft)


def _conclude(draft: ReactionDraft) -> None:
    """Once all tasks are gone, note the job's outcome or start again."""
    gang = draft.gang
    if gang.tasks:
        return
    if gang.goal is Goal.BROKEN:
        _judge(draft)
    elif gang.goal is Goal.RESTART:
        _restart(draft)
    elif gang.goal is Goal.CLEAR and draft.job.phase is Phase.STARTING:
        begin(draft)
        settle(draft)
    elif gang.goal is Goal.CANCEL:
        draft.note(Cancelled(draft.key, draft.now))
    elif gang.goal is Goal.PREEMPT and not draft.sight.finished:
        draft.note(Preempted(draft.key, draft.job.generation, draft.now))
    elif gang.goal is not Goal.CLEAR:
        outcome = Outcome.FAILED if gang.goal is Goal.FAIL else Outcome.SUCCEEDED
        generation = draft.job.generation
        error = (gang.error or "its tasks failed") if outcome is Outcome.FAILED else ""
        draft.note(Ended(draft.key, generation, outcome, draft.now, error, gang.exit_code))


def _judge(draft: ReactionDraft) -> None:
    """Count what broke the gang, once; restart or fail."""
    cause = first_cause(draft.gang.deaths, draft.gang.broken)
    fault, code = is_fault(cause.exited), cause.exited.code
    why, program = blame(cause.exited, cause.tail), draft.job.job.program
    broken = RunBroken(draft.key, draft.now, why, fault, code)
    after = fold(draft.gang, broken)
    if is_over_budget(after, program):
        draft.note(broken)
        aim(draft, Trigger.FAILED, why_over(after, program, why), code)
    else:
        counted = draft.gang.setbacks.after(draft.now, fault=fault)
        draft.note(replace(broken, delay=counted.delay))
    _conclude(draft)


def _restart(draft: ReactionDraft) -> None:
    """Start all tasks together, after the delay of a broken gang."""
    if not _requeue_if_long(draft) and rested(draft):
        begin(draft)
        settle(draft)


def _requeue_if_long(draft: ReactionDraft) -> bool:
    """Give the devices back for a long delay; return whether that was done."""
    until = draft.gang.setbacks.until
    if until - draft.now < GIVE_BACK:
        return False
    draft.note(Requeued(draft.key, draft.job.generation, draft.now, until))
    draft.see(unplaced=())
    return True


def are_workers_done(draft: ReactionDraft) -> bool:
    """Whether every worker of a job without the runtime has succeeded."""
    workers = [slot for slot in draft.placement.slots if slot.role == "worker"]
    return len(workers) <= len(draft.gang.done) and set(workers) <= set(draft.gang.done)


def _is_up(draft: ReactionDraft) -> bool:
    """Whether every slot has a task that runs and, in a live job, that trains.

    A job that could be resized live is not up until it has named its members: it could not be resized
    before. One that never does is of fixed size.
    """
    if not draft.gang.live and len(draft.sight.running) + len(draft.gang.done) < len(
        draft.placement.slots
    ):
        return False  # looking at each slot would cost a large gang much at each start
    slots, tasks = set(draft.placement.slots), draft.gang.tasks
    if draft.gang.live:
        names = {each.task.name for each in tasks}
        return draft.gang.held == slots and set(draft.sight.roster.members) == names
    running = {each.slot for each in tasks if each.task in draft.sight.running}
    if not slots <= running | set(draft.gang.done):
        return False
    if not draft.job.job.elastic or draft.job.job.restarts or draft.sight.fixed:
        return True
    if not draft.sight.awaiting_word:
        draft.see(awaiting_word=True)
        draft.do(SetTimer(UNHEARD, Unheard(draft.job.generation)))
    return False


def fix_size(draft: ReactionDraft) -> None:
    """Fix the job's current size: it does not use the runtime."""
    placed = draft.placement
    roles = tuple(
        replace(spec, gang=count, least=count, most=count)
        for spec in draft.job.job.roles
        for count in (placed.count(spec.role),)
    )
    draft.see(fixed=True)
    draft.note(Reshaped(draft.key, roles, draft.now))


def _is_short(draft: ReactionDraft) -> bool:
    """Whether the members train without a task that will not be replaced."""
    if not draft.gang.live or not draft.gang.tasks:
        return False
    roster, names = draft.sight.roster, {each.task.name for each in draft.gang.tasks}
    wanted = sum(roster.target.values())
    return set(roster.members) == names and wanted <= len(names) < len(draft.placement.slots)


def _stop_growing(draft: ReactionDraft, left: Placement) -> None:
    """Take no more workers: those that came failed, and the next ones would."""
    why = draft.sight.roster.refusal
    roles = tuple(
        replace(spec, least=min(spec.least, count), most=count)
        for spec in draft.job.job.roles
        for count in (left.count(spec.role),)
    )
    draft.note(Reshaped(draft.key, roles, draft.now, why))


def _give_back(draft: ReactionDraft) -> None:
    """Give back the slots of lost tasks; a job without a whole gang fails."""
    held = draft.gang.held
    left = Placement(tuple(slot for slot in draft.placement.slots if slot in held))
    if all(left.count(spec.role) >= spec.gang for spec in draft.job.job.roles):
        draft.note(TasksLost(draft.key, draft.job.generation + 1, left, draft.now))
        if draft.sight.roster.refusal:
            _stop_growing(draft, left)
    else:
        error = (
            draft.sight.roster.refusal
            or draft.gang.error
            or "more tasks were lost than the gang can do without"
        )
        aim(draft, Trigger.FAILED, error)
