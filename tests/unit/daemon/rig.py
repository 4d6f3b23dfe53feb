"""One gang in its view, with executor and runtime played by a test."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.core.state.evolve import evolve
from muster.daemon.gang.commands import Command, LaunchTask, SetTimer, SignalTask, TellTask
from muster.daemon.gang.events import Exited, GangEvent, GangFact, Heard, Resumed
from muster.daemon.gang.react import react
from muster.daemon.gang.state import GangState, Sight, fold_gangs
from muster.model.event import (
    Cancelled,
    Ended,
    Event,
    MigrateBegun,
    PreemptBegun,
    ResizeBegun,
    StartBegun,
    Submitted,
)
from muster.model.job import Job, Program, Role
from muster.model.placement import Placement
from muster.model.task import (
    Fact,
    StopAsked,
    TaskExited,
    TaskOrdered,
    TaskStarted,
)
from muster.model.view import JobState, Phase
from muster.wire.tasks.messages import Changed, Hello, Message, StepDone
from tests.builders import SERVER_TASK, cluster, job, placement, slot, view
from tests.numbers import number

TWO = placement(("n0", 0b01), ("n0", 0b10))
THREE = placement(("n0", 0b01), ("n0", 0b10), ("n1", 1))
KEY = number("j")
SERVER = slot("n0", 0, role=Role.SERVER, need=SERVER_TASK)


@dataclass
class Done:
    """What the gang had done: everything it noted and commanded, in order."""

    facts: list[Fact] = field(default_factory=list)
    ordered: list[TaskOrdered] = field(default_factory=list)
    signals: list[tuple[str, int]] = field(default_factory=list)
    said: list[tuple[str, Message]] = field(default_factory=list)
    timers: list[SetTimer] = field(default_factory=list)


class Rig:
    """A gang in its view, with executor and runtime played by the test."""

    def __init__(self, asked: Job, placed: Placement = TWO) -> None:
        self.done, self.job = Done(), replace(asked, number=KEY)
        self.view = evolve(view(cluster(2)), [Submitted(self.job, 0.0)])
        self.journal: list[Fact] = [Submitted(self.job, 0.0)]
        self.gangs: Mapping[int, GangState] = {}
        self.sight = Sight()
        self.generation = 0
        self.passed = 0.0
        self.start(placed)

    @property
    def gang(self) -> GangState:
        return self.gangs[KEY]

    @property
    def state(self) -> JobState:
        return self.view.jobs[KEY]

    @property
    def ended(self) -> Ended:
        (fact,) = [fact for fact in self.done.facts if isinstance(fact, Ended)]
        return fact

    def fold(self, *facts: Fact) -> None:
        """Take facts into view and gang."""
        self.journal += facts
        self.view = evolve(self.view, [fact for fact in facts if isinstance(fact, Event)])
        self.gangs = fold_gangs(self.gangs, facts)

    def react(self, event: GangEvent) -> None:
        if KEY not in self.gangs:
            return
        now = self.passed + len(self.done.facts)
        reaction = react(self.gang, self.sight, self.state, event, now)
        assert react(self.gang, self.sight, self.state, event, now) == reaction, "it is pure"
        self.done.facts += reaction.facts
        self.fold(*reaction.facts)
        self.sight = reaction.sight
        for command in reaction.commands:
            self._perform(command)

    def _perform(self, command: Command) -> None:
        match command:
            case LaunchTask():
                task = self.gang.find(command.task)
                assert task is not None
                self.done.ordered.append(task)
            case SignalTask():
                self.done.signals.append((command.task.name, command.number))
            case TellTask():
                self.done.said.append((command.task, command.message))
            case SetTimer():
                self.done.timers.append(command)

    def start(self, placed: Placement = TWO) -> None:
        self.generation += 1
        self.happen(StartBegun(KEY, self.generation, placed, 0.0))

    def resize(self, placed: Placement) -> None:
        self.generation += 1
        self.happen(ResizeBegun(KEY, self.generation, placed, 0.0))

    def migrate(self, placed: Placement) -> None:
        self.generation += 1
        self.happen(MigrateBegun(KEY, self.generation, placed, 0.0))

    def preempt(self) -> None:
        self.happen(PreemptBegun(KEY, self.state.generation, 0.0))

    def cancel(self) -> None:
        """As the service does it: a job without tasks is over at once."""
        if self.state.phase is Phase.WAITING and not self.gang.tasks:
            self.fold(StopAsked(KEY, 0.0), Cancelled(KEY, 0.0))
        elif self.state.phase in (Phase.WAITING, Phase.PREEMPTING):
            self.happen(StopAsked(KEY, 0.0))
        else:
            self.happen(StopAsked(KEY, 0.0), PreemptBegun(KEY, self.state.generation, 0.0))

    def happen(self, *facts: GangFact) -> None:
        """Facts that others note: folded first, then reacted to."""
        self.fold(*facts)
        for fact in facts:
            self.react(fact)

    def pass_time(self) -> None:
        """Every timeout that was set so far."""
        timers, self.done.timers = self.done.timers, []
        began = self.passed
        for timer in sorted(timers, key=lambda timer: timer.seconds):
            self.passed = max(self.passed, began + timer.seconds)
            self.react(timer.timeout)

    def run_all(self) -> None:
        for task in self.gang.tasks:
            self.react(TaskStarted(task.task, 1.0))

    def end(self, name: str, code: int | None = 0, number: int | None = None, **more: object) -> None:
        task = self.gang.task(name)
        assert task is not None
        at = self.passed + len(self.done.facts)
        report = TaskExited(task.task, at, code, number, **more)  # type: ignore[arg-type]
        self.react(Exited(report, "the last line"))

    def greet(self, name: str, formation: int = 0) -> None:
        role = name.rpartition("-")[0]
        ready = formation == 0
        hello = Hello("j", name, role, f"h:{name}", 1, formation=formation, ready=ready)
        self.react(Heard(hello))

    def train(self, formation: int, *names: str) -> None:
        """These are the members now."""
        self.react(Heard(Changed(names[0], formation, 5, names, 0.1, "plan")))

    def step(self, formation: int, *names: str) -> None:
        """Each of them has done a step, and has the whole state."""
        for name in names:
            done = StepDone(name, formation, 6, 0, 8, 1.0, 0.1, 0.1, 0.0, 0.0, holds=True)
            self.react(Heard(done))

    def kinds(self, *wanted: type[Fact]) -> list[Fact]:
        return [fact for fact in self.done.facts if isinstance(fact, wanted or object)]

    @property
    def names(self) -> set[str]:
        return {task.task.name for task in self.gang.tasks}


def live(most: int = 4) -> Rig:
    """A job of the runtime that trains with two workers."""
    rig = Rig(job("j", 1, most=most))
    rig.run_all()
    for name in ("worker-0", "worker-1"):
        rig.greet(name)
    rig.train(1, "worker-0", "worker-1")
    rig.step(1, "worker-0", "worker-1")
    return rig


def fixed(**program: object) -> Rig:
    """A job of two plain processes that run."""
    rig = Rig(job("j", 2, program=Program(**program)))  # type: ignore[arg-type]
    rig.run_all()
    return rig


def restored(rig: Rig, journal: Sequence[Fact] | None = None, *, resume: bool = True) -> Rig:
    """The gang as a daemon finds it that is started on this journal."""
    other = Rig.__new__(Rig)
    other.done, other.job, other.generation = Done(), rig.job, rig.generation
    other.view, other.gangs, other.journal, other.sight = view(cluster(2)), {}, [], Sight()
    other.passed = rig.passed + len(rig.done.facts)
    other.fold(*(rig.journal if journal is None else journal))
    if resume:
        other.react(Resumed())
    return other
