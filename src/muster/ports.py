"""What a driver needs from outside. Small on purpose: the tests have a fake of each."""

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from muster.model.event import NodeAdded, NodeDraining, NodeLeft, NodeLost, NodeReturned
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted
from muster.wire.api.records import NodeHealth
from muster.wire.visits.visits import Visit

Report = TaskStarted | TaskExited | NodeAdded | NodeLost | NodeReturned | NodeDraining | NodeLeft
"""What an executor reports of its tasks and nodes."""

Agents = Callable[[], Mapping[str, NodeHealth]]
"""Returns the nodes whose agents are connected, and how they are. Thread-safe, quick."""


class Clock(Protocol):
    """The only source of time."""

    def now(self) -> float:
        """Return the seconds since a fixed moment."""
        ...


class Executor(Protocol):
    """Runs tasks on named nodes with named devices.

    No call waits for a machine: results are reported by `collect`. Tasks outlive the driver; a
    restarted driver attaches to those it knows. Thread-safe.
    """

    def start(self, order: TaskOrder) -> None:
        """Run a task; reported as started or exited. Idempotent by task id."""
        ...

    def signal(self, task: TaskId, number: int) -> None:
        """Send a signal to the task's process group; no effect if it is gone."""
        ...

    def attach(self, tasks: Mapping[TaskId, str]) -> None:
        """Watch tasks that an earlier driver ordered, each on its node. Each is reported as if started
        now: started, exited, or, if its order never arrived, exited with `begun` false."""
        ...

    def collect(self) -> Sequence[Report]:
        """Return the reports since the last call, oldest first, each once."""
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Register a callback, called from any thread when there is something to collect."""
        ...

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        """Return a part of a log; negative offsets count from its end. `LookupError` if the log does
        not exist or its name leads out of the log folder."""
        ...

    def visit(self, task: TaskId, node: str, visit: Visit) -> socket.socket:
        """Return a connection to a process beside a task, on its node; if that cannot be, the first
        note on it says why (`wire.visits`). Ended tasks can be visited for their files."""
        ...

    def prune(self, older_than: float) -> int:
        """Delete the files of jobs without live tasks and without activity since then; return how
        many jobs."""
        ...

    def close(self) -> None:
        """Stop watching; the tasks keep running."""
        ...


@dataclass(frozen=True, slots=True)
class NodeDeparts:
    """An engine will take a node back."""

    node: str
    within: float
    """s until it is gone."""
    why: str


@dataclass(frozen=True, slots=True)
class NodeGone:
    """An engine has taken a node back or seen it die: nothing of it runs any more."""

    node: str
    why: str


ProviderNews = NodeDeparts | NodeGone


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What jobs could use beyond the nodes that are there, and the nodes nobody uses."""

    devices: dict[str, int]
    """Devices wanted, by type; "": any type."""
    largest: int = 0
    """Devices that one gang needs on one node."""
    idle: tuple[str, ...] = ()
    """Nodes without tasks that no waiting or growing job can use. For how long, providers count."""
    nodes: tuple[str, ...] = ()
    """Nodes that are there, whatever their state: what is on its way is not among them."""


class Provider(Protocol):
    """Brings agents to the nodes of an engine; the agents themselves dial the daemon. Thread-safe; no
    call waits for the engine."""

    name: str
    """Of the engine."""

    def begin(self, tell: Callable[[ProviderNews], None]) -> None:
        """Start bringing agents; `tell` is called from any thread."""
        ...

    def want(self, demand: NodeDemand) -> None:
        """Follow the demand, where the engine lets nodes come and go. Called after cycles."""
        ...

    def close(self) -> None:
        """Stop; tasks and their agents keep running, for the next daemon. Nothing is ordered any more:
        nodes without tasks may be given back."""
        ...
