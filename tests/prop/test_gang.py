"""A gang under any order of events: no order twice, no task left behind, the journal is enough."""

import signal
from collections.abc import Sequence
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.daemon.gang.events import Exited, Heard, LimitReached
from muster.daemon.gang.transitions import NEXT, Goal, Trigger
from muster.model.event import Cancelled, Checkpointed, Ended, NodeLost, NodeReturned, Outcome
from muster.model.job import Program
from muster.model.task import StopAsked, TaskEnded, TaskExited, TaskOrdered, TaskStarted
from muster.model.view import Phase
from muster.wire.tasks.messages import Changed, Failed, Hello
from muster.wire.tasks.messages import TrainingEnded as Left
from tests.builders import job, placement
from tests.unit.daemon.rig import KEY, Rig, restored

T = TypeVar("T")

PLACES = (
    placement(("n0", 1)),
    placement(("n0", 1), ("n0", 2)),
    placement(("n0", 1), ("n1", 2), ("n1", 4)),
    placement(("n1", 1), ("n1", 2)),
)
EXITS = ((0, None), (3, None), (None, signal.SIGKILL), (None, signal.SIGTERM), (None, None))


class History:
    """Plays events drawn by Hypothesis, and holds the gang against what must be true of it."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        failures, losses = data.draw(st.integers(0, 2)), data.draw(st.sampled_from((None, 0, 2)))
        program = Program(
            failures=failures, losses=losses, time=self.data.draw(st.sampled_from((None, 9.0)))
        )
        asked = job("j", 1, most=4, restarts=data.draw(st.booleans()), program=program)
        self.rig = Rig(asked, self.pick(PLACES))
        self.formation = 0

    def pick(self, choices: Sequence[T]) -> T:
        return self.data.draw(st.sampled_from(choices))

    def step(self) -> None:
        """One event that could happen now."""
        rig = self.rig
        moves = [rig.pass_time, self.revive]
        if rig.gang.tasks:
            moves += [self.start, self.exit, self.exit, self.hello, self.change, self.leave, self.fail]
            moves += [self.force, self.reach_limit]
        if rig.state.phase is Phase.WAITING:
            moves.append(self.begin)
        elif rig.state.phase is Phase.RUNNING:
            moves += [self.resize, rig.preempt, rig.cancel, self.lose_node, self.checkpoint]
        else:
            moves += [self.lose_node, *([] if rig.state.phase is Phase.PREEMPTING else [rig.cancel])]
        self.pick(moves)()
        self.check()

    def name(self) -> str:
        return self.pick([each.task.name for each in self.rig.gang.tasks])

    def start(self) -> None:
        self.rig.react(TaskStarted(self.pick(self.rig.gang.tasks).task, 1.0))

    def exit(self) -> None:
        code, number = self.pick(EXITS)
        begun = code is not None or number is not None
        report = TaskExited(self.pick(self.rig.gang.tasks).task, 1.0, code, number, begun=begun)
        self.rig.react(Exited(report, "the last line"))

    def hello(self) -> None:
        name = self.name()
        self.rig.react(Heard(Hello("j", name, name.rpartition("-")[0], f"h:{name}", 1, ready=True)))

    def change(self) -> None:
        self.formation += 1
        names = sorted({each.task.name for each in self.rig.gang.tasks})
        members = tuple(names[: self.data.draw(st.integers(1, len(names)))])
        self.rig.react(Heard(Changed(members[0], self.formation, 5, members, 0.1, "plan")))

    def leave(self) -> None:
        how = self.pick(("finished", "stopped"))
        self.rig.react(Heard(Left(self.name(), self.formation, 9, how)))

    def fail(self) -> None:
        self.rig.react(Heard(Failed(self.name(), "ValueError: no", "Traceback")))

    def force(self) -> None:
        self.rig.happen(StopAsked(KEY, 0.0, force=True))

    def reach_limit(self) -> None:
        self.rig.react(LimitReached(self.rig.state.run))

    def checkpoint(self) -> None:
        self.rig.fold(Checkpointed(KEY, self.rig.state.generation, 0.0))

    def begin(self) -> None:
        self.rig.generation = self.rig.state.generation
        self.return_nodes()
        self.rig.start(self.pick(PLACES))

    def resize(self) -> None:
        self.rig.generation = self.rig.state.generation
        self.return_nodes()
        wanted = self.pick(PLACES)
        if wanted != self.rig.state.placement:
            self.rig.resize(wanted)

    def return_nodes(self) -> None:
        self.rig.fold(NodeReturned("n0", 0.0), NodeReturned("n1", 0.0))

    def lose_node(self) -> None:
        self.rig.happen(NodeLost(self.pick(("n0", "n1")), 0.0))

    def revive(self) -> None:
        """kill -9 of the daemon, and the next one on the same journal."""
        before = self.rig
        self.rig = restored(before)
        self.rig.done.facts = [*before.done.facts, *self.rig.done.facts]

    @property
    def over(self) -> bool:
        return KEY not in self.rig.gangs

    def check(self) -> None:
        ordered = [fact.task for fact in self.rig.journal if isinstance(fact, TaskOrdered)]
        ended = [f.exited.task for f in self.rig.journal if isinstance(f, TaskEnded)]
        assert len(set(ordered)) == len(ordered), "ordered twice"
        assert len(set(ended)) == len(ended), "ended twice"
        left = [] if self.over else [each.task for each in self.rig.gang.tasks]
        assert set(ordered) == set(ended) | set(left), "a task was forgotten"
        again = restored(self.rig, self.rig.journal, resume=False)
        assert (again.view, again.gangs) == (self.rig.view, self.rig.gangs), "the journal is not enough"
        if self.over:
            last = [fact for fact in self.rig.journal if isinstance(fact, Ended | Cancelled)]
            assert len(last) == 1
            assert not left


@given(st.data())
def test_nothing_is_ordered_twice_or_forgotten_and_the_journal_is_enough(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(1, 40))):
        if history.over:
            break
        history.step()


@settings(deadline=None)
@given(st.data(), st.integers(1, 3), st.booleans())
def test_a_gang_whose_tasks_keep_dying_ends_and_every_loss_is_counted_once(
    data: st.DataObject, workers: int, fault: bool
) -> None:
    """In whatever order its tasks die, with whatever signals and codes."""
    placed = placement(*(("n0", 1 << place) for place in range(workers)))
    rig = Rig(job("j", workers, program=Program(failures=2, losses=3)), placed)
    for _ in range(8):
        if KEY not in rig.gangs:
            break
        before = rig.gang.failures + rig.gang.losses
        while KEY in rig.gangs and rig.gang.tasks:
            name = data.draw(st.sampled_from(sorted(rig.names)))
            code, number = data.draw(st.sampled_from(EXITS[1:4]))
            rig.end(name, 3 if fault and code is None else code, None if fault else number)
        if KEY in rig.gangs:
            assert rig.gang.failures + rig.gang.losses == before + 1
            rig.pass_time()
    assert rig.ended.outcome is Outcome.FAILED


@given(st.data())
def test_whatever_happened_a_gang_that_is_stopped_ends(data: st.DataObject) -> None:
    history = History(data)
    for _ in range(data.draw(st.integers(0, 25))):
        if history.over:
            return
        history.step()
    if history.over:
        return
    rig = history.rig
    rig.cancel()
    for _ in range(3):
        if not history.over:
            rig.pass_time()  # checkpoint, SIGTERM, SIGKILL
    while not history.over and rig.gang.tasks:
        name = rig.gang.tasks[0].task.name
        rig.end(name, None, signal.SIGKILL)
    assert history.over or (rig.state.phase is Phase.WAITING and rig.gang.goal is Goal.CLEAR)


@pytest.mark.parametrize("goal", [each for each in Goal if each is not Goal.CLOSED])
def test_a_stop_is_possible_from_every_goal_or_under_way(goal: Goal) -> None:
    ending = (Goal.CANCEL, Goal.FAIL, Goal.FINISH)
    assert goal in ending or NEXT[goal, Trigger.STOP_ASKED] is Goal.CANCEL
