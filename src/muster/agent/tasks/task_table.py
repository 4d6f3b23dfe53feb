"""The tasks of a node that somebody still waits for word of."""

from collections.abc import Iterator
from dataclasses import dataclass

from muster.model.task import TaskId


@dataclass(slots=True)
class TaskEntry:
    """A task as its agent sees it."""

    log: str
    lease: float = 0.0
    over: bool = False
    told: bool = False
    """Whether the daemon has heard of its end."""


class TaskTable:
    """Tasks from their order until the daemon has their end and their log."""

    def __init__(self) -> None:
        self._tasks: dict[TaskId, TaskEntry] = {}

    def add(self, task: TaskId, log: str, lease: float = 0.0) -> None:
        """Enter a task. Idempotent."""
        self._tasks.setdefault(task, TaskEntry(log, lease))

    def ended(self, task: TaskId) -> str:
        """Note a task's end; return its log, empty if it has none."""
        entry = self._tasks.setdefault(task, TaskEntry(""))
        entry.over = True
        return entry.log

    def told(self, task: TaskId) -> None:
        """The daemon has heard of a task's end."""
        if task in self._tasks:
            self._tasks[task].told = True

    def living(self) -> list[TaskId]:
        """Return the tasks that have not ended."""
        return [task for task, entry in self._tasks.items() if not entry.over]

    def leased(self) -> Iterator[tuple[TaskId, float]]:
        """Yield the tasks with a lease that have not ended."""
        for task, entry in self._tasks.items():
            if entry.lease and not entry.over:
                yield task, entry.lease

    def told_with_logs(self) -> list[tuple[TaskId, str]]:
        """Return the tasks whose end the daemon has heard of, with their logs."""
        return [(task, entry.log) for task, entry in self._tasks.items() if entry.told]

    def logs(self) -> set[str]:
        """Return the logs of all tasks."""
        return {entry.log for entry in self._tasks.values() if entry.log}

    def uses(self, log: str) -> bool:
        """Whether a task writes this log, or may: attempts append to the same."""
        return any(entry.log == log for entry in self._tasks.values())

    def remove(self, task: TaskId) -> None:
        self._tasks.pop(task, None)

    def __len__(self) -> int:
        return len(self._tasks)
