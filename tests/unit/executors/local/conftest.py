"""A local executor on a folder of its own; whatever a test leaves running is killed."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from muster.executors.local import LocalExecutor
from muster.model.job import Role
from muster.model.task import TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Report

LIMIT = 60.0
"""Seconds after which what has not come true never will."""

PATH = {"PATH": "/usr/local/bin:/usr/bin:/bin"}


def until(true: Callable[[], object]) -> None:
    """Wait for it."""
    end = time.monotonic() + LIMIT
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


def exists(pid: int) -> bool:
    """Whether a process of this number runs."""
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return False


class Bench:
    """Orders tasks, and hears of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.made: list[LocalExecutor] = []
        self.heard: list[Report] = []
        self.executor = self.another()

    def another(self, **settings: Any) -> LocalExecutor:
        """The executor of the next driver on the same folder."""
        self.executor = LocalExecutor(self.data, time.time, **settings)
        self.made.append(self.executor)
        self.heard = []
        return self.executor

    def order(
        self,
        *argv: str,
        index: int = 0,
        environ: Mapping[str, str] = PATH,
        folder: str = "",
        number: int = 1,
        ports: tuple[int, ...] = (),
    ) -> TaskId:
        task = TaskId(number, 1, Role.WORKER, index)
        where = folder or str(self.folder / "work")
        log = f"{number}/1/{task.name}.log"
        order = TaskOrder(task, "n0", (), argv, environ, where, log, own_folder=not folder, ports=ports)
        self.executor.start(order)
        return task

    def shell(self, script: str, index: int = 0, number: int = 1, **environ: str) -> TaskId:
        return self.order("sh", "-c", script, index=index, number=number, environ=PATH | environ)

    def _of(self, kind: type[Report], task: TaskId) -> list[Any]:
        self.heard += self.executor.collect()
        return [r for r in self.heard if isinstance(r, kind) and r.task == task]  # type: ignore[union-attr]

    def started(self, task: TaskId) -> TaskStarted:
        until(lambda: self._of(TaskStarted, task))
        (report,) = self._of(TaskStarted, task)
        assert isinstance(report, TaskStarted)
        return report

    def exited(self, task: TaskId) -> TaskExited:
        until(lambda: self._of(TaskExited, task))
        (report,) = self._of(TaskExited, task)
        assert isinstance(report, TaskExited)
        return report

    def task_folder(self, task: TaskId) -> Path:
        return self.data / "tasks" / str(task)

    def entry(self, task: TaskId, name: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.task_folder(task) / f"{name}.json").read_bytes())
        return content

    def edit(self, task: TaskId, name: str, **changes: Any) -> None:
        path = self.task_folder(task) / f"{name}.json"
        path.write_text(json.dumps(self.entry(task, name) | changes), encoding="ascii")

    def kill_shim(self, task: TaskId) -> None:
        pid = self.entry(task, "claim")["pid"]
        os.kill(pid, signal.SIGKILL)
        until(lambda: not exists(pid))

    def log(self, task: TaskId) -> str:
        name = f"{task.number}/1/{task.name}.log"
        return self.executor.read_log(name, 0, 1_000_000).data.decode()

    def log_of(self, task: TaskId, words: str) -> str:
        """The log, once it holds these words."""

        def says() -> bool:
            try:
                return words in self.log(task)
            except LookupError:
                return False

        until(says)
        return self.log(task)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    one = Bench(tmp_path)
    yield one
    for path in one.data.glob("tasks/*/*/*/begun.json"):
        if not (path.parent / "ended.json").exists():
            parts = path.parent.relative_to(one.data / "tasks").parts
            index = int(parts[2].split("-")[1])
            one.executor.signal(TaskId(int(parts[0]), 1, Role.WORKER, index), signal.SIGKILL)
    for executor in one.made:
        executor.close()
