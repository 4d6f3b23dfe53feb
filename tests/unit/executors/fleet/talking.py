"""A fleet and its agents without connections, on a clock that the test moves."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from muster.executors.fleet.fleet import Fleet
from muster.executors.fleet.log_store import LogStore
from muster.executors.transit import offer_fields, report_fields
from muster.files.cluster.classify import Classifier
from muster.model.job import Role
from muster.model.offer import NodeOffer
from muster.model.task import TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Report
from muster.wire.agents.agent_codec import FROM_AGENT
from muster.wire.agents.agent_messages import AgentHello, AgentReport, ToAgent

T = TypeVar("T")

OFFER = NodeOffer("", 8000, 2**34, devices=4, device_type="H100", device_memory=80 * 10**9)
LOST_AFTER = 30.0


def task(index: int = 0, number: int = 7, attempt: int = 0) -> TaskId:
    return TaskId(number, 1, Role.WORKER, index, attempt)


def order(id: TaskId, node: str = "gpu1") -> TaskOrder:
    log = f"{id.number}-train/{id.generation}/{id.name}.log"
    return TaskOrder(id, node, (0,), ("train",), {}, "/work", log)


@dataclass(slots=True)
class Talk:
    """One connection of an agent: what the fleet has sent over it."""

    node: str
    said: list[ToAgent] = field(default_factory=list)
    ended: bool = False
    seq: int = 0

    def send(self, *messages: ToAgent) -> None:
        if not self.ended:
            self.said += messages

    def end(self) -> None:
        self.ended = True

    def of(self, kind: type[T]) -> list[T]:
        """What was sent of a kind."""
        return [each for each in self.said if isinstance(each, kind)]


class World:
    """A fleet, its clock, and what it has reported."""

    def __init__(self, folder: Path, attached: bool = True, epoch: int = 1) -> None:
        self.now = 1000.0
        self.reports: list[Report] = []
        self.logs = LogStore(folder / "logs")
        self.fleet = Fleet(
            self.logs,
            Classifier().classify,
            epoch,
            self.reports.append,
            clock=lambda: self.now,
            monotonic=lambda: self.now,
            lost_after=LOST_AFTER,
            release="1.0",
        )
        if attached:
            self.fleet.attach({})

    def call(
        self,
        node: str = "gpu1",
        run: str = "a",
        living: tuple[TaskId, ...] = (),
        change: Callable[[AgentHello], AgentHello] = lambda hello: hello,
        **offer: object,
    ) -> Talk:
        """An agent connects and says hello."""
        talk = Talk(node)
        fields = offer_fields(replace(OFFER, name=node, **offer))  # type: ignore[arg-type]
        hello = AgentHello(node, run, 0, fields, tuple(map(str, living)), "1.0")
        arrived = FROM_AGENT.decode(FROM_AGENT.encode(change(hello)))
        assert isinstance(arrived, AgentHello)
        self.fleet.called(talk, arrived)
        return talk

    def report(self, talk: Talk, report: TaskStarted | TaskExited, age: float = 0.0) -> None:
        """An agent reports."""
        talk.seq += 1
        what, fields = report_fields(report)
        self.fleet.heard(talk, AgentReport(talk.seq, age, what, str(report.task), fields))

    def started(self, talk: Talk, id: TaskId) -> None:
        self.report(talk, TaskStarted(id, 0.0, 99))

    def exited(self, talk: Talk, id: TaskId, code: int | None = 0) -> None:
        self.report(talk, TaskExited(id, 0.0, code))

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.fleet.pass_time()

    def heard(self) -> list[str]:
        """What was reported since the last call, in short."""
        found, self.reports[:] = list(self.reports), []
        return [_short(each) for each in found]


def _short(report: Report) -> str:
    match report:
        case TaskStarted():
            return f"started {report.task.name}"
        case TaskExited():
            how = (
                "never began" if not report.begun else "unknown" if report.code is None else report.code
            )
            return f"exited {report.task.name} {how}"
        case _:
            return f"{type(report).__name__} {getattr(report.node, 'name', report.node)}"
