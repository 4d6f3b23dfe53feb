"""What a driver needs from outside. Small on purpose: the tests have a fake of each."""

from collections.abc import Callable, Sequence
from typing import Protocol

from muster.model.event import NodeLost, NodeReturned
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted

Report = TaskStarted | TaskExited | NodeLost | NodeReturned
"""What an executor reports of its tasks and nodes."""


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

    def attach(self, tasks: Sequence[TaskId]) -> None:
        """Watch tasks that an earlier driver ordered. Each is reported as if started now: started,
        exited, or, if its order never arrived, exited with `begun` false."""
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

    def prune(self, older_than: float) -> int:
        """Delete the files of jobs without live tasks and without activity since then; return how
        many jobs."""
        ...

    def close(self) -> None:
        """Stop watching; the tasks keep running."""
        ...
