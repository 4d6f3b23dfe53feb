"""The executor of one machine: a shim for each task, and files that say what became of it."""

import contextlib
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from muster.executors.local.identity import ProcessIdentity
from muster.executors.local.logs import LogFolder
from muster.executors.local.prune import prune
from muster.executors.local.spawn import spawn
from muster.executors.local.task_folder import Begun, End, TaskFolder
from muster.executors.local.watch import ProcessWatcher
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Report

LOG_LIMIT = 64 * 2**20
"""Bytes of one task's log: a day of a line a second takes a tenth of it."""

TRIM_EVERY = 3.0
"""Seconds between two looks at the sizes of logs: a disk takes in a few hundred MB/s at most."""

LOOK_AGAIN = 0.02
"""Seconds between two looks at a task whose shim, another executor's, is about to start it."""

TAKE_BACK_AGAIN = 1.0
"""Seconds between two attempts to take an order back."""


@dataclass(slots=True)
class _Task:
    """A task as this executor knows it."""

    id: TaskId
    folder: TaskFolder
    log: str = ""
    shim: ProcessIdentity | None = None
    """The one that was started here."""
    watched: ProcessIdentity | None = None
    begun: Begun | None = None
    told_begun: bool = False
    over: bool = False
    signals: list[int] = field(default_factory=list)
    """To be sent as soon as there is somebody to send them to."""


class LocalExecutor:
    """Runs tasks as process groups of this machine, which outlive whoever ordered them.

    `clock` tells seconds since 1970, as the shims do. `nodes`: the names that stand for this machine;
    None: every name does. A log above `log_limit` bytes loses its older half.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float],
        *,
        nodes: Collection[str] | None = None,
        log_limit: int = LOG_LIMIT,
    ) -> None:
        self._folder, self._clock = folder.absolute(), clock
        self._nodes = None if nodes is None else frozenset(nodes)
        for part in ("tasks", "logs"):
            (self._folder / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._logs = LogFolder(self._folder / "logs", log_limit)
        self._tasks: dict[TaskId, _Task] = {}
        self._over: set[TaskId] = set()
        """Tasks that have ended: ordered again, they do not run again."""
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self._wake: Callable[[], None] = lambda: None
        self._watch = ProcessWatcher("muster-executor")
        self._watch.post(self._trim)

    def start(self, order: TaskOrder) -> None:
        """Run a task; returns at once."""
        self._watch.post(partial(self._start, order))

    def signal(self, task: TaskId, number: int) -> None:
        """Send a signal to the task's process group; one that is being started gets it then."""
        self._watch.post(partial(self._signal, task, number))

    def attach(self, tasks: Sequence[TaskId]) -> None:
        """ProcessWatcher tasks that were ordered before, and report how each of them is."""
        for task in tasks:
            self._watch.post(partial(self._attach, task))

    def collect(self) -> Sequence[Report]:
        """What happened since the last call, oldest first."""
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def listen(self, wake: Callable[[], None]) -> None:
        """Call this when there is something to collect."""
        with self._lock:
            self._wake = wake
            if self._reports:
                self._watch.post(wake)

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        """A part of a log; `LookupError` if there is none of that name."""
        return self._logs.read(log, offset, size)

    def prune(self, older_than: float) -> int:
        """Delete what is left of jobs that nothing has happened to since then; how many they are."""
        return prune(self._folder, older_than)

    def close(self) -> None:
        """Stop watching; the tasks live on."""
        self._watch.close()

    def _start(self, order: TaskOrder) -> None:
        if order.id in self._tasks or order.id in self._over:
            return
        try:
            output = self._logs.place(order.log)
            if self._nodes is not None and order.node not in self._nodes:
                raise LookupError(f"node {order.node} is not this machine")
        except LookupError as problem:
            self._report(TaskExited(order.id, self._clock(), error=str(problem), begun=False))
            return
        task = self._tasks[order.id] = _Task(order.id, self._folder_of(order.id), order.log)
        try:
            task.folder.put_order(order, output)
            if not task.folder.claimed:
                self._spawn(task)
                return
        except OSError as problem:
            self._give_up(task, f"it could not be started: {problem}")
            return
        self._look(task)

    def _spawn(self, task: _Task) -> None:
        task.shim, told = spawn(task.folder.path)
        self._watch.on_hang_up(told, partial(self._look, task))
        self._follow(task, task.shim)

    def _attach(self, id: TaskId) -> None:
        task = self._tasks.get(id)
        if task is None:
            folder = self._folder_of(id)
            task = self._tasks[id] = _Task(id, folder, folder.log())
        task.told_begun = False
        self._look(task)

    def _signal(self, id: TaskId, number: int) -> None:
        task = self._tasks.get(id) or _Task(id, self._folder_of(id))
        begun = task.begun or task.folder.begun()
        if begun is not None:
            begun.process.signal_group(number)
        elif id in self._tasks:
            task.signals.append(number)

    def _look(self, task: _Task) -> None:
        """Go by the files: what they say is reported once, and what is to come is watched for."""
        if task.over:
            return
        end = task.folder.end()
        begun = task.folder.begun()
        if end is not None:
            self._finish(task, begun, end)
        elif begun is not None:
            self._look_at_process(task, begun)
        elif task.folder.claimed:
            self._look_at_shim(task)
        elif task.shim is not None and task.shim.alive:
            return  # it has not come to the order yet
        else:
            self._give_up(task, "it was never started")

    def _give_up(self, task: _Task, why: str) -> None:
        """An order that nobody has taken on, and nobody is about to."""
        try:
            ours = task.folder.take_back()
        except OSError:  # such as a full disk: a shim may still come, so nothing can be said yet
            self._watch.later(TAKE_BACK_AGAIN, partial(self._look, task))
            return
        if ours:
            self._drop(task, why)
        else:
            self._look(task)  # somebody has it, since this moment

    def _look_at_process(self, task: _Task, begun: Begun) -> None:
        shim = task.folder.shim()
        if begun.process.alive:
            self._tell_begun(task, begun)
            self._follow(task, shim if shim is not None and shim.alive else begun.process)
        elif shim is not None and shim.alive:
            self._follow(task, shim)  # it is about to record the end
        else:
            # Asked again: the shim may have recorded the end, and ended, between the two looks.
            end = task.folder.end()
            if end is None:
                begun.process.kill_remains()
                end = End(self._clock(), error="nobody was there to see how it ended")
                with contextlib.suppress(OSError):  # it is found out again
                    task.folder.put_end(end)
            self._finish(task, begun, end)

    def _look_at_shim(self, task: _Task) -> None:
        """Somebody has the order, and has not begun."""
        shim = task.folder.shim()
        if shim is not None and shim.alive:
            self._watch.later(LOOK_AGAIN, partial(self._look, task))
        elif task.folder.begun() is not None or task.folder.end() is not None:
            self._look(task)
        else:
            self._drop(task, "its start was cut short")

    def _follow(self, task: _Task, process: ProcessIdentity) -> None:
        if task.watched != process:
            task.watched = process
            self._watch.on_end(process, partial(self._look, task))

    def _tell_begun(self, task: _Task, begun: Begun) -> None:
        if task.told_begun:
            return
        task.told_begun, task.begun = True, begun
        self._report(TaskStarted(task.id, begun.at, begun.process.pid))
        for number in task.signals:
            begun.process.signal_group(number)
        task.signals.clear()

    def _finish(self, task: _Task, begun: Begun | None, end: End) -> None:
        if task.shim is not None and begun is not None and end.begun:
            self._tell_begun(task, begun)  # it was over before anybody could look
        self._settle(task)
        self._over.add(task.id)
        if task.log:
            self._logs.trim(task.log)
        self._report(
            TaskExited(task.id, end.at, end.code, end.signal, error=end.error, begun=end.begun)
        )

    def _drop(self, task: _Task, why: str) -> None:
        """Nothing came of the order, and nothing will: as if it had never been given."""
        self._settle(task)
        task.folder.remove()
        self._report(TaskExited(task.id, self._clock(), error=why, begun=False))

    def _settle(self, task: _Task) -> None:
        task.over = True
        self._tasks.pop(task.id, None)

    def _report(self, report: Report) -> None:
        with self._lock:
            self._reports.append(report)
            self._watch.post(self._wake)

    def _trim(self) -> None:
        for task in self._tasks.values():
            if task.log:
                self._logs.trim(task.log)
        self._watch.later(TRIM_EVERY, self._trim)

    def _folder_of(self, id: TaskId) -> TaskFolder:
        return TaskFolder(self._folder / "tasks" / str(id))
