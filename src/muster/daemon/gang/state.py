"""A gang as a value: one job's tasks, beyond what the view keeps.

`GangState` is folded from facts and survives a restart of the daemon. `Sight` is what this daemon has
seen since its start: processes that run, members that have spoken, pending timeouts. It starts empty
and is rebuilt from the executor and the tasks.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from muster.daemon.gang.exits import blame
from muster.daemon.gang.setbacks import Setbacks
from muster.daemon.gang.transitions import Goal, Trigger, advance
from muster.model.event import (
    Cancelled,
    Checkpointed,
    Ended,
    MigrateBegun,
    PreemptBegun,
    Preempted,
    Requeued,
    ResizeBegun,
    StartBegun,
)
from muster.model.placement import Slot
from muster.model.task import (
    Fact,
    GangStopping,
    RunBroken,
    RuntimeSeen,
    StopAsked,
    TaskEnded,
    TaskId,
    TaskOrdered,
    job_of,
)
from muster.roster.acts import Begin
from muster.roster.roster import Roster


@dataclass(frozen=True, slots=True)
class GangState:
    """One job's tasks."""

    tasks: tuple[TaskOrdered, ...] = ()
    """Ordered and not ended."""
    used: tuple[str, ...] = ()
    """Task names used so far."""
    orders: Mapping[str, int] = field(default_factory=dict)
    """The next attempt of each task in the current run, by `attempt_key`: none is ordered twice."""
    done: tuple[Slot, ...] = ()
    """Slots of the current run whose task has succeeded."""
    live: bool = False
    """Whether it uses the runtime, and can be resized while it trains."""
    goal: Goal = Goal.RUN
    failures: int = 0
    losses: int = 0
    error: str = ""
    """What failed or was lost last, with the last lines of its log."""
    exit_code: int | None = None
    setbacks: Setbacks = field(default_factory=Setbacks)
    deaths: tuple[TaskEnded, ...] = ()
    """Tasks of a job without the runtime that have died in this run: the first breaks it."""
    broken: float = 0.0
    """When the rest was told to stop; 0: never."""
    restarts: int = 0
    """Restarts as a whole after a death, each with a port of its own."""
    runs: int = 0
    """How often it began without a task: those of earlier runs may live on, where nobody sees them."""

    def task(self, name: str) -> TaskOrdered | None:
        """Return the task of this name."""
        return next((each for each in self.tasks if each.task.name == name), None)

    def find(self, wanted: TaskId) -> TaskOrdered | None:
        """Return this task, if it has not ended."""
        return next((each for each in self.tasks if each.task == wanted), None)

    @property
    def held(self) -> set[Slot]:
        """Slots that have a task."""
        return {each.slot for each in self.tasks}


@dataclass(frozen=True, slots=True)
class Sight:
    """What this daemon has seen of a gang. Its roster is never changed, only replaced."""

    running: frozenset[TaskId] = frozenset()
    roster: Roster = field(default_factory=Roster)
    rosters: int = 0
    """Rosters so far: the number of the current one."""
    stops: int = 0
    """Stops so far: the number of the current one."""
    stopping: Goal | None = None
    """The goal for which the tasks are being stopped."""
    warned: bool = False
    """SIGTERM was sent: a task that exits with 0 after it may have been stopped by it."""
    finished: bool = False
    """The training completed while it was being stopped."""
    fixed: bool = False
    """It could be resized live, but has never spoken."""
    awaiting_word: bool = False
    """A timeout is pending for a job that has not spoken yet."""
    start_failures: int = 0
    """Consecutive tasks lost before they trained."""
    unplaced: tuple[Begin, ...] = ()
    """Tasks that the roster wants and that cannot start yet: it does not ask again."""
    resting: float = 0.0
    """The end of the delay for which a timeout is pending; 0: none is."""


def attempt_key(generation: int, name: str) -> str:
    """Return the key of a task's attempts within a generation."""
    return f"{generation}/{name}"


def fold_gangs(gangs: Mapping[int, GangState], facts: Iterable[Fact]) -> Mapping[int, GangState]:
    """Return all gangs after these facts; a job has one from its first start to its end."""
    changed = dict(gangs)
    for fact in facts:
        number = job_of(fact)
        if isinstance(fact, StartBegun):
            changed.setdefault(fact.job, GangState())
        if isinstance(fact, Ended | Cancelled):
            changed.pop(fact.job, None)
        elif number is not None and number in changed:
            changed[number] = fold(changed[number], fact)
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
            gang = replace(gang, broken=fact.at if goal is Goal.BROKEN else 0.0)
        case RunBroken():
            gang = _broken(gang, fact)
        case Checkpointed():
            gang = replace(gang, setbacks=gang.setbacks.over())
        case StartBegun():
            setbacks = replace(gang.setbacks, since=fact.at)
            gang = replace(gang, done=(), orders={}, deaths=(), broken=0.0, setbacks=setbacks)
        case ResizeBegun() | MigrateBegun() if not gang.live:
            gang = replace(gang, goal=advance(gang.goal, Trigger.CHANGED))
    return gang


_TRIGGERS: dict[type[Fact], Trigger] = {
    PreemptBegun: Trigger.PREEMPTED,
    StopAsked: Trigger.STOP_ASKED,
    Preempted: Trigger.EMPTIED,
    Requeued: Trigger.EMPTIED,
}


def _ordered(gang: GangState, fact: TaskOrdered) -> GangState:
    name = fact.task.name
    key = attempt_key(fact.task.generation, name)
    since = gang.setbacks.since if gang.tasks else fact.at
    return replace(
        gang,
        setbacks=replace(gang.setbacks, since=since),
        deaths=(),
        goal=advance(gang.goal, Trigger.ORDERED),
        tasks=(*gang.tasks, fact),
        runs=gang.runs + (not gang.tasks),
        used=gang.used if name in gang.used else (*gang.used, name),
        orders={**gang.orders, key: fact.task.attempt + 1},
        done=gang.done if gang.goal is Goal.RUN else (),
    )


def _ended(gang: GangState, fact: TaskEnded) -> GangState:
    gone = gang.find(fact.exited.task)
    done = (gone.slot,) if gone is not None and fact.exited.code == 0 else ()
    if fact.fault or fact.lost:
        gang = _set_back(gang, fact, ordered=gone.at if gone is not None else fact.at)
    elif not gang.live and gang.goal in (Goal.RUN, Goal.BROKEN) and _has_died(fact):
        gang = replace(gang, deaths=(*gang.deaths, fact))
    return replace(
        gang,
        tasks=tuple(each for each in gang.tasks if each is not gone),
        done=(*gang.done, *done),
        failures=gang.failures + fact.fault,
        losses=gang.losses + fact.lost,
    )


def _has_died(fact: TaskEnded) -> bool:
    """Whether a task did not end well or could not begin; an order that got lost is given again."""
    exited = fact.exited
    return exited.code != 0 and (exited.begun or exited.code is not None or bool(exited.error))


def _set_back(gang: GangState, fact: TaskEnded, ordered: float) -> GangState:
    """Count a task of its own. Those that were there when the last one was counted died with it."""
    gang = replace(gang, error=blame(fact.exited, fact.tail), exit_code=fact.exited.code)
    if gang.setbacks.count and ordered < gang.setbacks.last:
        return gang
    return replace(gang, setbacks=gang.setbacks.after(fact.at, fault=fact.fault, live=True))


def _broken(gang: GangState, fact: RunBroken) -> GangState:
    counted = gang.setbacks.after(fact.at, fault=fact.fault)
    return replace(
        gang,
        goal=advance(gang.goal, Trigger.RETRIED),
        failures=gang.failures + fact.fault,
        losses=gang.losses + (not fact.fault),
        restarts=gang.restarts + 1,
        setbacks=replace(counted, delay=fact.delay),
        error=fact.cause,
        exit_code=fact.exit_code,
        deaths=(),
        broken=0.0,
    )
