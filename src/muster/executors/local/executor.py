"""The executor of one machine: a shim for each task, and files that record its fate."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from muster.executors.accounts import UnknownUserError, account_of
from muster.executors.containers import ContainerError
from muster.executors.local.cgroups import NO_GROUPS, GroupError, TaskGroups
from muster.executors.local.identity import ProcessIdentity, identify
from muster.executors.local.listening import first_taken
from muster.executors.local.logs import LogFolder
from muster.executors.local.prune import prune
from muster.executors.local.shim import NOT_RUNNABLE, ORDER, remove_groups
from muster.executors.local.shims import Shims
from muster.executors.local.task_folder import Begun, End, Moment, TaskFolder, now
from muster.executors.local.visitors import start_visitor
from muster.executors.local.watch import ProcessWatcher
from muster.executors.packs import PACKS, BadPackError, PackFolder
from muster.executors.private_folder import make_private
from muster.model.task import LogPiece, TaskExited, TaskId, TaskOrder, TaskStarted
from muster.ports import Report
from muster.wire.visits.visits import Visit

LOG_LIMIT = 64 * 2**20
"""Bytes of one task's log: a line per second for a day takes a tenth."""

TRIM_EVERY = 3.0
"""s between two checks of log sizes: disks write a few hundred MB/s at most."""

CLEAR_EVERY, CLEAR_AGAIN = 30.0, 1.0
"""s between two searches for cgroups that nobody has removed, and while one still has processes."""

LOOK_AGAIN = 0.02
"""s between two checks of a task that another executor's shim is about to start."""

TAKE_BACK_AGAIN = 1.0
"""s between two attempts to take an order back."""


@dataclass(slots=True)
class _Task:
    """What this executor knows of a task."""

    id: TaskId
    folder: TaskFolder
    log: str = ""
    shim: ProcessIdentity | None = None
    """The shim started by this executor."""
    watched: ProcessIdentity | None = None
    begun: Begun | None = None
    told_begun: bool = False
    over: bool = False
    oom: bool = False
    """Whether the kernel has killed for memory; known of a task without a shim."""
    signals: list[int] = field(default_factory=list)
    """To be sent once the task has a process."""


class LocalExecutor:
    """Runs tasks as process groups of this machine, as `ports.Executor` says.

    `clock`: the time of reports; what shims have recorded is as old as the machine says. A log above
    `log_limit` bytes loses its older half. `umask`: of tasks that run as the executor's own user; None:
    the executor's. `heard`: the file that tells when the daemon was last heard (s since boot), for
    leases; None: the daemon is here, and there are none.
    """

    def __init__(
        self,
        folder: Path,
        clock: Callable[[], float],
        *,
        log_limit: int = LOG_LIMIT,
        groups: TaskGroups = NO_GROUPS,
        umask: int | None = None,
        heard: Path | None = None,
    ) -> None:
        self._folder, self._clock = folder.absolute(), clock
        self._groups, self._umask, self._heard = groups, umask, heard
        for part in ("tasks", "logs"):
            make_private(self._folder / part)
        self._packs = PackFolder(self._folder / PACKS)
        self._logs = LogFolder(self._folder / "logs", log_limit)
        self._tasks: dict[TaskId, _Task] = {}
        self._over: set[TaskId] = set()
        """Ended tasks: ordered again, they do not run again."""
        self._lock = threading.Lock()
        self._reports: list[Report] = []
        self._wake: Callable[[], None] = lambda: None
        self._watch = ProcessWatcher("muster-executor")
        self._shims = Shims()
        self._watch.post(self._trim)
        self._watch.post(self._clear_groups)

    def start(self, order: TaskOrder) -> None:
        self._watch.post(partial(self._start, order))

    def signal(self, task: TaskId, number: int) -> None:
        self._watch.post(partial(self._signal, task, number))

    def attach(self, tasks: Iterable[TaskId]) -> None:
        for task in tasks:
            self._watch.post(partial(self._attach, task))

    def has_ended(self, task: TaskId) -> bool:
        """Whether this executor has reported a task's end."""
        return task in self._over

    def collect(self) -> Sequence[Report]:
        with self._lock:
            reports, self._reports = self._reports, []
        return reports

    def listen(self, wake: Callable[[], None]) -> None:
        with self._lock:
            self._wake = wake
            if self._reports:
                self._watch.post(wake)

    def read_log(self, log: str, offset: int, size: int) -> LogPiece:
        return self._logs.read(log, offset, size)

    def visit(self, task: TaskId, node: str, visit: Visit) -> socket.socket:
        ours, theirs = socket.socketpair()
        self._watch.post(partial(self._receive, self._folder_of(task), visit, theirs))
        return ours

    def _receive(self, folder: TaskFolder, visit: Visit, connection: socket.socket) -> None:
        """Start a visitor's process; it tells why it cannot do what is asked."""
        with connection:
            pid = start_visitor(folder.path, visit, connection)
            self._watch.on_end(identify(pid), lambda: None)

    def prune(self, older_than: float) -> int:
        return prune(self._folder, older_than)

    def prepare(self) -> None:
        """Do now what the first task would have to wait for."""
        self._watch.post(self._shims.prepare)

    def close(self) -> None:
        self._watch.close()
        self._shims.close()

    def unsettled(self) -> Iterator[tuple[TaskId, TaskFolder]]:
        """Yield the tasks whose end, or log, somebody waits for."""
        for path in sorted(self._folder.glob(f"tasks/*/*/*/{ORDER}")):
            folder = TaskFolder(path.parent)
            if not folder.settled:
                with contextlib.suppress(ValueError):
                    yield TaskId.parse("/".join(path.parts[-4:-1])), folder

    def log_of(self, task: TaskId) -> str:
        """Return the name of a task's log; empty if it is unknown."""
        return self._folder_of(task).log()

    def settle(self, task: TaskId) -> None:
        """Record that nobody waits for word of an ended task any more."""
        self._folder_of(task).settle()

    def _start(self, order: TaskOrder) -> None:
        if order.id in self._tasks or order.id in self._over:
            return
        try:
            output = self._logs.place(order.log)
        except LookupError as problem:
            self._report(TaskExited(order.id, self._clock(), error=str(problem), begun=False))
            return
        task = self._tasks[order.id] = _Task(order.id, self._folder_of(order.id), order.log)
        port = 0 if task.folder.ordered else first_taken(order.ports)
        if port:
            self._settle(task)
            why = _taken(port)
            self._report(TaskExited(order.id, self._clock(), error=why, begun=False, port=port))
            return
        try:
            self._put(order, task.folder, output)
            if not task.folder.claimed:
                self._spawn(task)
                return
        except (BadPackError, GroupError, OSError) as problem:
            self._give_up(task, f"could not be started: {problem}")
            return
        except (ContainerError, UnknownUserError) as problem:
            self._settle(task)
            refused = TaskExited(order.id, self._clock(), NOT_RUNNABLE, error=str(problem), begun=False)
            self._report(refused)
            return
        self._look(task)

    def _put(self, order: TaskOrder, folder: TaskFolder, output: Path) -> None:
        """Write an order with what this machine knows: its user and its cgroups."""
        if folder.ordered:
            return
        account = account_of(order.user) if order.user else None
        groups = self._groups_for(order)
        pack = self._packs.path(order.ship) if order.ship else None
        folder.put_order(order, output, groups, account, self._umask, pack, self._heard)

    def _groups_for(self, order: TaskOrder) -> list[Path]:
        try:
            return self._groups.make(_group_name(order.id), order.memory, order.millicores)
        except GroupError:
            if order.memory or order.millicores:
                raise
            return []  # nothing was promised

    def _spawn(self, task: _Task) -> None:
        task.shim, news = self._shims.start(task.folder.path)
        self._watch.on_hang_up(news, partial(self._look, task))
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
        """Report once what the files say, and watch for what comes next."""
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
            return  # it has not read the order yet
        else:
            self._give_up(task, "it was never started")

    def _give_up(self, task: _Task, why: str) -> None:
        """Drop an order that no shim has claimed or is about to."""
        try:
            ours = task.folder.take_back()
        except OSError:  # for example a full disk: a shim may still come
            self._watch.later(TAKE_BACK_AGAIN, partial(self._look, task))
            return
        if ours:
            self._drop(task, why)
        else:
            self._look(task)  # a shim has just claimed it

    def _look_at_process(self, task: _Task, begun: Begun) -> None:
        shim = task.folder.shim()
        if begun.process.alive:
            self._tell_begun(task, begun)
            self._follow(task, shim if shim is not None and shim.alive else begun.process)
        elif shim is not None and shim.alive:
            self._follow(task, shim)  # it is about to record the end
        else:
            # Again: the shim may have recorded the end, and ended, between the two checks.
            end = task.folder.end() or self._end_without_shim(task, begun)
            if end is None:
                self._watch.later(LOOK_AGAIN, partial(self._look, task))
            else:
                self._finish(task, begun, end)

    def _end_without_shim(self, task: _Task, begun: Begun) -> End | None:
        """Do what the task's shim would have done; None while processes of the task are left."""
        begun.process.kill_remains()
        groups = task.folder.groups()
        task.oom |= remove_groups(groups, attempts=1)
        if any(Path(group).exists() for group in groups):
            return None
        end = End(now(), error="its exit status is unknown", oom=task.oom)
        with contextlib.suppress(OSError):  # it will be found out again
            task.folder.put_end(end)
        return end

    def _look_at_shim(self, task: _Task) -> None:
        """A shim has claimed the order and not started it yet."""
        shim = task.folder.shim()
        if shim is not None and shim.alive:
            self._watch.later(LOOK_AGAIN, partial(self._look, task))
        elif task.folder.begun() is not None or task.folder.end() is not None:
            self._look(task)
        else:
            self._drop(task, "its start was interrupted")

    def _follow(self, task: _Task, process: ProcessIdentity) -> None:
        if task.watched != process:
            task.watched = process
            self._watch.on_end(process, partial(self._look, task))

    def _tell_begun(self, task: _Task, begun: Begun) -> None:
        if task.told_begun:
            return
        task.told_begun, task.begun = True, begun
        self._report(TaskStarted(task.id, self._at(begun.moment), begun.process.pid))
        for number in task.signals:
            begun.process.signal_group(number)
        task.signals.clear()

    def _finish(self, task: _Task, begun: Begun | None, end: End) -> None:
        if task.shim is not None and begun is not None and end.begun:
            self._tell_begun(task, begun)  # it ended before it was reported as started
        self._settle(task)
        self._over.add(task.id)
        if task.log:
            self._logs.trim(task.log)
        self._report(self._exit_of(task, end))

    def _exit_of(self, task: _Task, end: End) -> TaskExited:
        limit = task.folder.memory()
        at = self._at(end.moment)
        exited = TaskExited(task.id, at, end.code, end.signal, end.error, end.begun, end.oom, limit)
        failed = end.begun and end.code not in (0, None) and not end.oom
        port = first_taken(task.folder.ports()) if failed else 0
        return replace(exited, code=None, error=_taken(port), port=port) if port else exited

    def _at(self, moment: Moment) -> float:
        return self._clock() - moment.age

    def _drop(self, task: _Task, why: str) -> None:
        """Report that the order was not carried out and never will be."""
        self._settle(task)
        self._remove_groups(_group_name(task.id))
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

    def _clear_groups(self) -> None:
        """Remove the groups of tasks whose shims died before they could."""
        left = False
        for name in self._groups.names():
            folder = TaskFolder(self._folder / "tasks" / name.replace(".", "/", 2))
            if folder.end() is not None or not folder.ordered:
                self._remove_groups(name)
                left = left or bool(self._groups.of(name))
        self._watch.later(CLEAR_AGAIN if left else CLEAR_EVERY, self._clear_groups)

    def _remove_groups(self, name: str) -> None:
        remove_groups([str(path) for path in self._groups.of(name)], attempts=1)

    def _folder_of(self, id: TaskId) -> TaskFolder:
        return TaskFolder(self._folder / "tasks" / str(id))


def _taken(port: int) -> str:
    return f"MASTER_PORT {port} was taken by another process"


def _group_name(id: TaskId) -> str:
    return str(id).replace("/", ".")
