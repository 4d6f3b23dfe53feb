"""Brings a gang to its goal with orders, messages and signals."""

import signal
from collections.abc import Iterable

from muster.daemon.gang.commands import SetTimer, SignalTask, TellTask
from muster.daemon.gang.draft import ReactionDraft
from muster.daemon.gang.events import KillLeft, Rested, RosterTimeout, Terminate
from muster.daemon.gang.state import fold
from muster.daemon.gang.transitions import Goal, Trigger, advance
from muster.daemon.gang.verdict import QUICK
from muster.model.duration import spelt
from muster.model.job import Role
from muster.model.plan import Sync
from muster.model.task import GangStopping
from muster.model.view import Phase
from muster.roster.acts import Act, Begin, Finish, Kill, Sharing, Tell, Terms
from muster.roster.roster import Roster
from muster.wire.tasks.messages import UseEnding

DEADLINE = 30.0
"""Seconds after which the runtime counts a silent member as gone."""
RESTARTS = 1_000_000
"""How often all workers of a job may be lost, for the roster: the gang has a budget of its own."""
KILL_AGAIN = 5.0
"""s after which SIGKILL is sent again: a process inside a system call dies late."""
_GENTLY = (Goal.PREEMPT, Goal.CANCEL, Goal.RESTART)


def begin(draft: ReactionDraft) -> None:
    """Order a task for every slot."""
    sight = draft.sight
    draft.see(
        running=frozenset(),
        stops=sight.stops + 1,  # timeouts of the last stop are void
        stopping=None,
        warned=False,
        finished=False,
        awaiting_word=False,
        start_failures=0,
        unplaced=(),
    )
    for slot in draft.placement.slots:
        draft.order(draft.new_name(slot), slot)
    draft.replace_roster(new_roster(draft))
    act(draft, resize_roster(draft))


def fill(draft: ReactionDraft) -> None:
    """Order a task for every slot that has none and is not done; the roster orders replacements."""
    live = draft.gang.live
    held = draft.gang.held | (set() if live else set(draft.gang.done))
    for slot in draft.placement.slots:
        if slot not in held and (not live or draft.job.phase is Phase.STARTING):
            draft.order(draft.new_name(slot), slot)


def new_roster(draft: ReactionDraft) -> Roster:
    """Return a roster that waits for a message from each current task."""
    program = draft.job.job.program
    terms = Terms(DEADLINE, program.sync, program.owners, replace=True, restarts=RESTARTS)
    names = {each.task.name for each in draft.gang.tasks}
    return Roster(terms, used=set(draft.gang.used), expected=names)


def resize_roster(draft: ReactionDraft) -> list[Act]:
    """Tell the roster how many tasks are wanted, which ones lose their place, and the batch."""
    placed, batch = draft.placement, draft.job.batch
    leave = [each.task.name for each in draft.gang.tasks if each.slot not in placed.slots]
    acts = draft.roster.resize(placed.count(Role.WORKER), placed.count(Role.SERVER), leave=leave)
    return acts if batch is None else acts + draft.roster.use_batch(batch, draft.job.generation)


def share(draft: ReactionDraft) -> None:
    """Tell the roster how the tasks share the work, if it has been decided for all of them."""
    wanted = _sharing(draft)
    if wanted != draft.sight.roster.sharing:
        act(draft, draft.roster.share(wanted))


def tell_ending(draft: ReactionDraft) -> None:
    """Tell the roster what ends the training, if its user has changed that."""
    program = draft.job.job.program
    order = UseEnding(program.until, round(1e3 * program.until_set))
    if order.order and order != draft.sight.roster.ending:
        act(draft, draft.roster.use_ending(order))


def _sharing(draft: ReactionDraft) -> Sharing | None:
    plan, placed = draft.job.plan, draft.placement
    names = {each.slot: each.task.name for each in draft.gang.tasks}
    if plan is None or any(slot not in names for slot in placed.slots):
        return None
    by_role = {
        role: [names[slot] for slot in placed.slots if slot.role is role]
        for role in (Role.WORKER, Role.SERVER)
    }
    owners = by_role[Role.SERVER if plan.sync is Sync.DEDICATED else Role.WORKER]
    if plan.owners and len(plan.owners) != len(owners):
        return None
    if plan.batch and len(plan.batch) != len(by_role[Role.WORKER]):
        return None
    return Sharing(
        plan.sync.value,
        dict(zip(owners, plan.owners, strict=True)) if plan.owners else {},
        dict(zip(by_role[Role.WORKER], plan.batch, strict=True)) if plan.batch else {},
        frozenset(names[slot] for slot in placed.slots),
    )


def act(draft: ReactionDraft, acts: Iterable[Act]) -> None:
    """Turn the acts of the roster into commands."""
    for each in acts:
        match each:
            case Begin():
                place(draft, each)
            case Tell():
                draft.do(TellTask(each.task, each.message))
            case Kill():
                _kill(draft, each.task)
            case Finish():
                end_training(draft, each.error)
            case _:
                draft.do(SetTimer(each.seconds, RosterTimeout(each, draft.sight.rosters)))


def place(draft: ReactionDraft, wanted: Begin) -> None:
    """Put a task that the roster wants into a slot that has none.

    The members may report a lost task before its process is seen to end: the slot is free then. After
    losses in a row it waits.
    """
    held = draft.gang.held
    free = [s for s in draft.placement.slots if s.role == wanted.role and s not in held]
    if free and draft.gang.goal is Goal.RUN and rested(draft):
        draft.order(wanted.task, free[0])
    else:
        draft.see(unplaced=(*draft.sight.unplaced, wanted))


def rested(draft: ReactionDraft) -> bool:
    """Whether the delay after the last setback is over; else a timeout is set for it."""
    until = draft.gang.setbacks.until
    if until <= draft.now:
        return True
    if draft.sight.resting != until:
        draft.see(resting=until)
        draft.do(SetTimer(until - draft.now, Rested()))
    return False


def _kill(draft: ReactionDraft, name: str) -> None:
    draft.see(unplaced=tuple(each for each in draft.sight.unplaced if each.task != name))
    task = draft.gang.task(name)
    if task is not None:
        draft.do(SignalTask(task.task, signal.SIGKILL))


def end_training(draft: ReactionDraft, error: str) -> None:
    """Handle the end of the training."""
    if draft.gang.goal in (Goal.PREEMPT, Goal.CANCEL):
        draft.see(finished=not error)
    elif error:
        aim(draft, Trigger.FAILED, error)
    else:
        aim(draft, Trigger.FINISHED, exit_code=0)


def aim(
    draft: ReactionDraft,
    trigger: Trigger,
    error: str = "",
    exit_code: int | None = None,
    *,
    kill: bool = False,
) -> None:
    """Note a goal that follows from no other fact, and stop the tasks."""
    goal = advance(draft.gang.goal, trigger)
    fact = GangStopping(draft.key, goal, draft.now, error, exit_code)
    if goal in (Goal.FAIL, Goal.FINISH, Goal.BROKEN) and not draft.gang.tasks:
        draft.gang = fold(draft.gang, fact)  # the fact that follows at once says it all
    elif goal is not draft.gang.goal:
        draft.note(fact)
    if kill or goal is not draft.sight.stopping:
        stop(draft, kill=kill)


def stop(draft: ReactionDraft, *, kill: bool = False) -> None:
    """Stop all tasks, gently at first."""
    goal, number = draft.gang.goal, draft.sight.stops + 1
    draft.see(stopping=goal, stops=number, warned=False)
    program, live = draft.job.job.program, draft.gang.live
    # A terminal is hung up whatever the reason: shells ignore SIGTERM.
    hangs_up = program.interactive is not None
    asks = program.checkpoint_signal if hangs_up or goal in (Goal.PREEMPT, Goal.RESTART) else None
    if kill:
        kill_left(draft)
    elif goal is Goal.FINISH and live:
        # Training is complete; give the script time for what it does afterwards.
        draft.do(SetTimer(program.finish_grace, Terminate(number)))
    elif live and goal in _GENTLY:
        act(draft, draft.roster.stop(goal.value, leave=True))
        draft.do(SetTimer(program.grace, Terminate(number)))
    elif asks:
        draft.signal(signal.Signals[asks])
        draft.do(SetTimer(program.checkpoint_grace, Terminate(number)))
    else:
        terminate(draft)


def end_grace(draft: ReactionDraft) -> None:
    """Handle the end of a grace period; a script that has not ended after its training has failed."""
    names = ", ".join(each.task.name for each in draft.gang.tasks)
    if draft.gang.goal is Goal.FINISH and draft.gang.live and names:
        limit = spelt(draft.job.job.program.finish_grace)
        aim(draft, Trigger.FAILED, f"{names} still ran {limit} after the training (finish_grace)")
    else:
        terminate(draft)


def terminate(draft: ReactionDraft) -> None:
    """Send SIGTERM, and SIGKILL after the grace period."""
    if draft.gang.tasks:
        draft.see(warned=True)
        draft.signal(signal.SIGTERM)
        grace = draft.job.job.program.grace
        if draft.gang.goal is Goal.BROKEN:
            grace = min(grace, QUICK)
        draft.do(SetTimer(grace, KillLeft(draft.sight.stops)))


def terminate_now(draft: ReactionDraft) -> None:
    """Send SIGTERM to the servers, now that no worker is left."""
    draft.see(stops=draft.sight.stops + 1)
    terminate(draft)


def kill_left(draft: ReactionDraft) -> None:
    """Send SIGKILL until no task is left."""
    if draft.gang.tasks:
        draft.signal(signal.SIGKILL)
        draft.do(SetTimer(KILL_AGAIN, KillLeft(draft.sight.stops)))
