"""Whatever agents, engines and time do: no task is reported twice, no device is used twice."""

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from muster.model.event import NodeAdded, NodeDraining, NodeLeft, NodeLost, NodeReturned
from muster.model.task import TaskExited, TaskId, TaskStarted
from muster.ports import NodeDeparts, NodeGone
from muster.wire.agents.agent_messages import Departing, RunTask, SendSignal, Welcome
from tests.unit.executors.fleet.talking import LOST_AFTER, Talk, World, order, task

NODES = ("gpu1", "gpu2")
_folder: Path


@pytest.fixture(autouse=True)
def _logs(tmp_path: Path) -> None:
    global _folder
    _folder = tmp_path


class Machine:
    """A node as it really is: what lives on it, and what its agent has not said yet."""

    def __init__(self) -> None:
        self.living: set[TaskId] = set()
        self.unsaid: list[TaskStarted | TaskExited] = []
        self.over: set[TaskId] = set()
        self.talk: Talk | None = None
        self.run = 0

    def obey(self) -> None:
        """Do what has arrived."""
        talk = self.talk
        for message in talk.said if talk else ():
            if isinstance(message, RunTask):
                self._begin(next(each for each in _ids() if str(each) == message.task))
            elif isinstance(message, SendSignal) and message.number == 9:
                self.end(next(each for each in _ids() if str(each) == message.task))
        if talk:
            talk.said.clear()

    def _begin(self, id: TaskId) -> None:
        if id not in self.living | self.over:
            self.living.add(id)
            self.unsaid.append(TaskStarted(id, 0.0, 1))

    def end(self, id: TaskId) -> None:
        if id in self.living:
            self.living.discard(id)
            self.over.add(id)
            self.unsaid.append(TaskExited(id, 0.0, 0))


def _ids() -> list[TaskId]:
    return [task(index) for index in range(12)]


class FleetLife(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.world = World(_folder)
        self.machines = {name: Machine() for name in NODES}
        self.next = 0
        self.state: dict[str, str] = {}
        """Of each node, as the reports say."""
        self.held: dict[TaskId, str] = {}
        """Tasks whose devices the daemon counts as taken, with their nodes."""
        self.exits: dict[TaskId, int] = {}

    @rule(name=st.sampled_from(NODES), again=st.booleans())
    def connect(self, name: str, again: bool) -> None:
        machine = self.machines[name]
        machine.run += not again
        talk = self.world.call(name, f"r{machine.run}", tuple(sorted(machine.living)))
        if talk.of(Welcome):
            machine.talk = talk
        self._take_in()

    @rule(name=st.sampled_from(NODES))
    def hang_up(self, name: str) -> None:
        talk, self.machines[name].talk = self.machines[name].talk, None
        if talk is not None:
            self.world.fleet.cut(talk)
            self._take_in()

    @rule(name=st.sampled_from(NODES), count=st.integers(1, 3))
    def speak(self, name: str, count: int) -> None:
        machine = self.machines[name]
        machine.obey()
        for report in machine.unsaid[:count] if machine.talk else ():
            assert machine.talk is not None
            machine.unsaid.remove(report)
            machine.talk.seq = self.next = self.next + 1
            self.world.report(machine.talk, report)
        self._take_in()

    @rule(name=st.sampled_from(NODES), index=st.integers(0, 11))
    def finish(self, name: str, index: int) -> None:
        self.machines[name].end(task(index))

    @rule(name=st.sampled_from(NODES), index=st.integers(0, 11))
    def order(self, name: str, index: int) -> None:
        """As the daemon would: on a node that is up, and never a task twice."""
        if (
            self.state.get(name) == "up"
            and task(index) not in self.exits
            and task(index) not in self.held
        ):
            self.held[task(index)] = name
            self.world.fleet.start(order(task(index), name))
            self._take_in()

    @rule(index=st.integers(0, 11))
    def kill(self, index: int) -> None:
        self.world.fleet.signal(task(index), 9)

    @rule(seconds=st.floats(0.1, LOST_AFTER * 1.1))
    def wait(self, seconds: float) -> None:
        self.world.wait(seconds)
        self._take_in()

    @rule(name=st.sampled_from(NODES), by_engine=st.booleans())
    def depart(self, name: str, by_engine: bool) -> None:
        talk = self.machines[name].talk
        if by_engine:
            self.world.fleet.hear_provider(NodeDeparts(name, 10.0, "wanted elsewhere"))
        elif talk is not None:
            self.world.fleet.heard(talk, Departing(10.0, "SIGTERM"))
        self._take_in()

    @rule(name=st.sampled_from(NODES))
    def vanish(self, name: str) -> None:
        """The engine is right: nothing of the node runs any more."""
        machine = self.machines[name]
        if machine.talk is not None:
            self.world.fleet.cut(machine.talk)
        self.machines[name] = Machine()
        self.machines[name].run = machine.run + 1
        self.machines[name].over = machine.over | machine.living
        self.world.fleet.hear_provider(NodeGone(name, "preempted"))
        self._take_in()

    def _take_in(self) -> None:
        for report in self.world.reports:
            match report:
                case NodeAdded():
                    self.state[report.node.name] = "up"
                case NodeReturned():
                    assert self.state[report.node] in ("lost", "draining")
                    self.state[report.node] = "up"
                case NodeDraining():
                    assert self.state[report.node] in ("up", "draining")
                    self.state[report.node] = "draining"
                case NodeLost():
                    assert self.state[report.node] in ("up", "draining")
                    self.state[report.node] = "lost"
                    self.held = {id: name for id, name in self.held.items() if name != report.node}
                case NodeLeft():
                    assert not [id for id, name in self.held.items() if name == report.node]
                    del self.state[report.node]
                case TaskExited():
                    self.exits[report.task] = self.exits.get(report.task, 0) + 1
                    self.held.pop(report.task, None)
                case TaskStarted():
                    assert report.task not in self.exits
        self.world.reports.clear()

    @invariant()
    def no_device_is_used_twice(self) -> None:
        """Where tasks may be ordered, nothing lives that the daemon does not count."""
        for name, state in getattr(self, "state", {}).items():
            held = {id for id, where in self.held.items() if where == name}
            assert state == "lost" or self.machines[name].living <= held

    @invariant()
    def each_task_ends_once(self) -> None:
        assert all(count == 1 for count in getattr(self, "exits", {}).values())

    @invariant()
    def the_fleet_knows_what_is_held(self) -> None:
        for name, node in self.world.fleet.nodes.items() if hasattr(self, "world") else ():
            assert node.tasks == {id for id, where in self.held.items() if where == name}


TestFleetLife = FleetLife.TestCase
TestFleetLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
