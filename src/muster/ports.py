"""What a driver must be given. Tiny on purpose: a fake of each ships with the tests."""

from collections.abc import Callable, Sequence
from typing import Protocol

from muster.model.decision import Decision
from muster.model.event import Event, NodeLost, NodeReturned
from muster.model.job import Job
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted

Report = TaskStarted | TaskExited | NodeLost | NodeReturned
"""What an executor tells of its tasks and nodes."""


class Clock(Protocol):
    """Tells the time; the only one who may."""

    def now(self) -> float:
        """Seconds since some fixed moment."""
        ...


class Carrier(Protocol):
    """Carries decisions about whole jobs out, and reports what became of them."""

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Begin what was decided; returns at once, the outcome comes as an event."""
        ...

    def collect(self) -> Sequence[Event]:
        """Facts since the last call, oldest first."""
        ...


class Executor(Protocol):
    """Runs tasks on named nodes with named devices, on however many machines.

    Nothing here waits for a machine: what was ordered is reported when it has come true. Tasks outlive
    the driver; a driver that is started again says which ones it knows of. Any thread may call.
    """

    def start(self, order: TaskOrder) -> None:
        """Run a task. Ordered twice (by its id), it runs once. Answer: started, or exited."""
        ...

    def signal(self, task: TaskId, number: int) -> None:
        """Send a signal to the task's whole process group; nothing happens if it is gone."""
        ...

    def attach(self, tasks: Sequence[TaskId]) -> None:
        """Watch tasks that an earlier driver ordered. Each is answered as if it were started now:
        started, exited, or, if no order ever arrived, exited with `begun` false."""
        ...

    def collect(self) -> Sequence[Report]:
        """What happened since the last call, oldest first; each thing once."""
        ...

    def listen(self, wake: Callable[[], None]) -> None:
        """Call this, from any thread, when there is something to collect."""
        ...

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        """A part of a log, wherever it lies; negative offsets count from its end. `LookupError` for a
        log that is not there, or a name that leads out of the folder of logs."""
        ...

    def prune(self, older_than: float) -> int:
        """Delete the files of jobs without live tasks and without activity since then; return how
        many jobs."""
        ...

    def close(self) -> None:
        """Stop watching; the tasks live on."""
        ...
