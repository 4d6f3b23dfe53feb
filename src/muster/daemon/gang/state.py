"""A gang as a value: what the journal says of one job's tasks, beyond what the view keeps.

`GangState` is the fold of facts and survives the daemon. `Sight` is what this daemon has seen since it
was started: processes that run, members that have spoken, timeouts under way. It starts empty and is
learnt again from the executor and the tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from muster.daemon.gang.exits import blame
from muster.daemon.gang.transitions import Goal, Trigger, advance
from muster.model.event import (
    Cancelled,
    Ended,
    MigrateBegun,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    StartBegun,
)
from muster.model.placement import Slot
from muster.model.task import (
    Fact,
    GangStopping,
    RuntimeSeen,
    StopAsked,
    TaskEnded,
    TaskId,
    TaskOrdered,
)
from muster.roster.acts import Begin
from muster.roster.roster import Roster

_FOLDED = (
    TaskOrdered
    | TaskEnded
    | RuntimeSeen
    | StopAsked
    | GangStopping
    | StartBegun
    | ResizeBegun
    | MigrateBegun
    | PreemptBegun
    | Preempted
)


@dataclass(frozen=True, slots=True)
class GangState:
    """One job's tasks."""

    tasks: tuple[TaskOrdered, ...] = ()
    """Ordered, and not seen to end."""
    used: tuple[str, ...] = ()
    """Names that its tasks have had."""
    orders: Mapping[str, int] = field(default_factory=dict)
    """Orders so far for each task name of the current run, by `attempt_key`: the next attempt's number,
    so that none is ever ordered twice."""
    done: tuple[Slot, ...] = ()
    """Slots of the current run whose task has succeeded."""
    live: bool = False
    """Whether it uses the runtime, and can be resized while it trains."""
    goal: Goal = Goal.RUN
    failures: int = 0
    losses: int = 0
    error: str = ""
    """How a task failed last, with the last lines of its log."""
    exit_code: int | None = None

    def task(self, name: str) -> TaskOrdered | None:
        """Return the task of this name."""
        return next((each for each in self.tasks if each.task.name == name), None)

    def find(self, wanted: TaskId) -> TaskOrdered | None:
        """Return this very task, if it has not been seen to end."""
        return next((each for each in self.tasks if each.task == wanted), None)

    @property
    def held(self) -> set[Slot]:
        """The slots that have a task."""
        return {each.slot for each in self.tasks}


@dataclass(frozen=True, slots=True)
class Sight:
    """What this daemon has seen of a gang. The roster in it is never changed, only replaced."""

    running: frozenset[TaskId] = frozenset()
    roster: Roster = field(default_factory=Roster)
    rosters: int = 0
    """Rosters so far: the number of the current one."""
    stops: int = 0
    """Stops so far: the number of the current one."""
    stopping: Goal | None = None
    """The goal for which the tasks are being stopped."""
    warned: bool = False
    """SIGTERM was sent: a task that succeeds from then on may have been stopped by it."""
    finished: bool = False
    """The training completed while it was being stopped."""
    fixed: bool = False
    """It could have been resized live, but has never spoken."""
    awaiting_word: bool = False
    """A timeout runs for a job that has not spoken yet."""
    start_failures: int = 0
    """Tasks in a row that were lost before they trained."""
    unplaced: tuple[Begin, ...] = ()
    """Tasks the roster wants and no slot was free for yet: it does not ask again."""


def attempt_key(generation: int, name: str) -> str:
    """Return the key of a task's attempts, within the current generation."""
    return f"{generation}/{name}"


def fold_gangs(gangs: Mapping[int, GangState], facts: Iterable[Fact]) -> Mapping[int, GangState]:
    """Return all gangs after these facts; a job has one from its first start to its end."""
    changed = dict(gangs)
    for fact in facts:
        if isinstance(fact, StartBegun):
            changed.setdefault(fact.job, GangState())
        if isinstance(fact, Ended | Cancelled):
            changed.pop(fact.job, None)
        elif isinstance(fact, _FOLDED) and fact.job in changed:
            changed[fact.job] = fold(changed[fact.job], fact)
    return changed


def fold(gang: GangState, fact: Fact) -> GangState:
    """Return one gang after a fact about its job."""
    if type(fact) in _TRIGGERS:
        return replace(gang, goal=advance(gang.goal, _TRIGGERS[type(fact)]))
    match fact:
        case TaskOrdered():
            gang = _ordered(gang, fact)
        case TaskEnded():
            gang = _ended(gang, fact)
        case RuntimeSeen():
            gang = replace(gang, live=True)
        case GangStopping():
            goal, error = Goal(fact.goal), fact.error or gang.error
            gang = replace(gang, goal=goal, error=error, exit_code=fact.exit_code)
        case StartBegun():
            gang = replace(gang, done=(), orders={})
        case ResizeBegun() | MigrateBegun() if not gang.live:
            gang = replace(gang, goal=advance(gang.goal, Trigger.CHANGED))
    return gang


_TRIGGERS: dict[type[Fact], Trigger] = {
    PreemptBegun: Trigger.PREEMPTED,
    StopAsked: Trigger.STOP_ASKED,
    Preempted: Trigger.EMPTIED,
}


def _ordered(gang: GangState, fact: TaskOrdered) -> GangState:
    name = fact.task.name
    key = attempt_key(fact.task.generation, name)
    return replace(
        gang,
        goal=advance(gang.goal, Trigger.ORDERED),
        tasks=(*gang.tasks, fact),
        used=gang.used if name in gang.used else (*gang.used, name),
        orders={**gang.orders, key: fact.task.attempt + 1},
        done=gang.done if gang.goal is Goal.RUN else (),
    )


def _ended(gang: GangState, fact: TaskEnded) -> GangState:
    gone = gang.find(fact.exited.task)
    done = (gone.slot,) if gone is not None and fact.exited.code == 0 else ()
    gang = replace(
        gang,
        tasks=tuple(each for each in gang.tasks if each is not gone),
        done=(*gang.done, *done),
        failures=gang.failures + fact.fault,
        losses=gang.losses + fact.lost,
    )
    if not fact.fault:
        return gang
    return replace(gang, error=blame(fact.exited, fact.tail), exit_code=fact.exited.code)
