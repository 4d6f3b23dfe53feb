"""Runs a whole job on this node: fork server, coordinator and tasks behind one object."""

import os
import secrets
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from muster.roster.acts import Finish, Terms
from muster.roster.roster import Roster
from muster.runtime.errors import MusterError
from muster.runtime.launch.coordinator import Coordinator
from muster.runtime.launch.fork_protocol import ChildExited, StartTask
from muster.runtime.launch.history import History
from muster.runtime.launch.preload import heavy_imports
from muster.runtime.launch.tasks import Output, Tasks

Seen = TypeVar("Seen")

HOST = "127.0.0.1"
"""All tasks run on this node."""

FINISH_GRACE = 600.0
"""Seconds for what a script does after its training, as for jobs of a daemon."""

LONGEST_NAME = 63
"""Characters of the job's name, as for jobs of a daemon."""

TERM_GRACE = 3.0
"""Seconds between SIGTERM and SIGKILL."""


class JobOverError(MusterError):
    """The job ended before the awaited event."""


@dataclass(frozen=True, slots=True)
class LaunchOutcome:
    """How a job has ended; `error` is empty when the training has finished."""

    error: str
    history: History

    @property
    def code(self) -> int:
        return 1 if self.error else 0


class Launch:
    """Runs a script as the tasks of one job; leaving the context kills what still runs."""

    def __init__(
        self,
        script: str | Path,
        args: Sequence[str] = (),
        workers: int = 1,
        servers: int = 0,
        deadline: float = 30.0,
        sync: str = "auto",
        owners: str = "reduce",
        balance: bool = True,
        threads: int | None = None,
        environ: Mapping[str, str] | None = None,
        logs: str | Path | None = None,
        devices: Sequence[str] | None = None,
        replace: bool = False,
        restarts: int = 0,
        on_output: Output | None = None,
        tasks: Tasks | None = None,
        finish_grace: float = FINISH_GRACE,
    ) -> None:
        """Prepare a job that starts with the context.

        `threads` None: `OMP_NUM_THREADS`, or the cores shared among the workers; `logs`: a folder for
        the tasks' output; `on_output`: called with each line of it; `tasks`: a running fork server to
        reuse; `finish_grace`: seconds for what the script does after its training.
        """
        self._finish_grace = finish_grace
        self._script, self._args = str(Path(script).absolute()), tuple(args)
        self._count = (workers, servers)
        self._terms = Terms(deadline, sync, owners, balance, replace, restarts)
        self._environ = dict(os.environ if environ is None else environ)
        self._threads = threads if threads is not None else threads_each(workers, self._environ)
        self._logs, self._on_output = Path(logs).absolute() if logs else None, on_output
        self._devices, self._device_of = tuple(devices or ()), dict[str, str]()
        self._token, self._job = secrets.token_hex(16), Path(script).stem[:LONGEST_NAME]
        self._changed = threading.Condition()
        self._address = (HOST, 0)
        self._exits: list[ChildExited] = []
        """Exits not yet passed to a coordinator."""
        self._failed: dict[str, str] = {}
        """How tasks ended that did not end well."""
        self._used: set[str] = set()
        self._resized = False
        """Whether another number was asked for while no coordinator was there."""
        self._batch: tuple[int, int] | None = None
        """The global batch that was asked for, and how often one was."""
        self._finish: Finish | None = None
        self._coordinator: Coordinator | None = None
        self._shared = tasks
        self._tasks: Tasks
        self.history = History()

    def __enter__(self) -> "Launch":
        """Start fork server, coordinator and first tasks."""
        if not Path(self._script).is_file():
            raise FileNotFoundError(f"no such script: {self._script}")
        if self._logs:
            self._logs.mkdir(parents=True, exist_ok=True)
        self._tasks = self._shared or Tasks(preload=heavy_imports(self._script))
        self._tasks.attach(self._note_exit, self._on_output)
        try:
            self.start_coordinator()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """Kill what still runs."""
        self.stop_coordinator()
        self._end()

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the live tasks."""
        return self._tasks.pids

    @property
    def outcome(self) -> LaunchOutcome | None:
        """How the job has ended; None while it runs."""
        self._note_finish()
        if self._finish is None:
            return None
        return LaunchOutcome(self._finish.error, self.history)

    def start_coordinator(self) -> None:
        """Start a coordinator at the previous address; it takes over the live tasks."""
        if self._coordinator is not None:
            return
        # Those that died meanwhile are lost from the number that was wanted before, not from a new one.
        died = set() if self._resized else {event.task for event in self._exits}
        expected = {*self._tasks.living, *died}
        roster = Roster(self._terms, used=self._used, expected=expected)
        one = Coordinator(
            self._job,
            self._token,
            roster,
            self.history,
            self._begin,
            # Do not wait: the coordinator's lock is held, and the task started long ago.
            lambda task: self._tasks.kill(task, timeout=0),
            self._address,
            self._changed,
        )
        self._address = one.address
        with self._changed:
            self._coordinator = one
            missed, self._exits = self._exits, []
        if not self._resized:
            one.resize(*self._count)
        if self._batch is not None:
            one.use_batch(*self._batch)
        for event in missed:
            one.exited(event.task, how_ended(event))
        if self._resized:
            one.resize(*self._count)
            self._resized = False

    def stop_coordinator(self) -> None:
        """Stop the coordinator as if it had crashed; the tasks are not told."""
        self._note_finish()
        with self._changed:
            one, self._coordinator = self._coordinator, None
        if one is not None:
            one.close()
            target = one.roster.target
            self._count = (target["worker"], target["server"])

    def resize(self, workers: int, servers: int | None = None) -> None:
        """Set the wanted number of workers and servers (None: as before); do not wait for it."""
        if workers < 1:
            raise ValueError(
                f"a job needs at least one worker, not {workers}; leave the context to end it"
            )
        self._count = (workers, self._count[1] if servers is None else servers)
        if self._coordinator is not None:
            self._coordinator.resize(*self._count)
        else:
            self._resized = True

    def use_batch(self, batch: int) -> None:
        """Set the global batch from the next steps on, within the script's limits; do not wait."""
        self._batch = (batch, (self._batch[1] if self._batch else 0) + 1)
        if self._coordinator is not None:
            self._coordinator.use_batch(*self._batch)

    def kill(self, task: str, number: int = signal.SIGKILL) -> bool:
        """Signal a task; False if it is not alive."""
        return self._tasks.kill(task, number)

    def wait_step(self, step: int, timeout: float) -> None:
        """Wait until a worker has reported this step."""
        self._wait_for(lambda: self.history.step >= step, f"step {step}", timeout)

    def wait_formation(self, formation: int, timeout: float) -> None:
        """Wait until the members have reported this formation or a later one."""
        self._wait_for(lambda: self.history.formation >= formation, f"formation {formation}", timeout)

    def wait_members(self, count: int, timeout: float) -> None:
        """Wait until the members report this number of members, including servers."""
        self._wait_for(lambda: len(self.history.members) == count, f"{count} members", timeout)

    def look(self, read: Callable[[History], Seen]) -> Seen:
        """Read the history under its lock."""
        with self._changed:
            return read(self.history)

    def watch(self, reached: Callable[[History], bool], timeout: float) -> bool:
        """Wait until the history meets a condition or the job ends; False on timeout."""
        with self._changed:
            return self._changed.wait_for(
                lambda: reached(self.history) or self.outcome is not None, timeout
            )

    def wait_over(self, timeout: float) -> bool:
        """Wait until the job ends; False on timeout."""
        return self.watch(lambda _: False, timeout)

    def wait(self, timeout: float) -> LaunchOutcome:
        """Wait until the job and its processes have ended, or raise `TimeoutError`."""
        end = time.monotonic() + timeout
        if not self.wait_over(timeout):
            raise TimeoutError(f"the job still runs after {timeout:g} s; {self._where()}")
        outcome = self.outcome
        assert outcome is not None
        grace = self._finish_grace if outcome.code == 0 else 0.0
        self._kill_lost()
        if self._tasks.wait_gone(min(grace, max(0.0, end - time.monotonic()))):
            return self._after_training(outcome)
        left = ", ".join(sorted(self._tasks.living))
        if outcome.code == 0 and grace > timeout:
            raise TimeoutError(f"the training is over, and {left} still runs after {timeout:g} s")
        self.end_tasks()
        late = f"{left} still ran {grace:g} s after the training (--finish-grace)"
        return outcome if outcome.error else LaunchOutcome(late, self.history)

    def _kill_lost(self) -> None:
        """Kill tasks that the others went on without: they have no part in the result."""
        for task in set(self._tasks.living) & set(self.history.lost):
            self._tasks.kill(task, timeout=0)

    def _after_training(self, outcome: LaunchOutcome) -> LaunchOutcome:
        """Return how a job has ended whose processes are gone: what a script does last counts, too."""
        with self._changed:
            failed = [task for task in self.history.members if task in self._failed]
        if outcome.error or not failed:
            return outcome
        first = failed[0]
        return LaunchOutcome(f"{first} failed after its training: {self._failed[first]}", self.history)

    def stop(self, reason: str) -> None:
        """Ask the tasks to end after their step."""
        if self._coordinator is not None:
            self._coordinator.stop(reason)

    def end_tasks(self) -> None:
        """Send SIGTERM, then SIGKILL, to all live tasks."""
        for number, grace in ((signal.SIGTERM, TERM_GRACE), (signal.SIGKILL, TERM_GRACE)):
            for task in self._tasks.living:
                self._tasks.kill(task, number, timeout=0)
            if self._tasks.wait_gone(grace):
                return

    def _end(self) -> None:
        if self._shared:
            self._tasks.end_all()
        else:
            self._tasks.close()

    def _wait_for(self, reached: Callable[[], bool], what: str, timeout: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: reached() or self.outcome is not None, timeout)
            if reached():
                return
            outcome = self.outcome
        if outcome is not None:
            raise JobOverError(f"the job ended before {what}: {outcome.error or 'finished'}")
        raise TimeoutError(f"no {what} within {timeout:g} s; {self._where()}")

    def _where(self) -> str:
        seen, living = self.history, ", ".join(self._tasks.living)
        where = f"step {seen.step}, formation {seen.formation}, living: {living}"
        return f"{where}; {seen.refusal}" if seen.refusal else where

    def _note_finish(self) -> None:
        one = self._coordinator
        if one is not None and self._finish is None:
            self._finish = one.roster.over

    def _begin(self, task: str, role: str) -> None:
        log = str(self._logs / f"{task}.log") if self._logs else ""
        environ, folder = self._task_environ(task, role), str(Path.cwd())
        self._tasks.start(
            StartTask(task, self._script, self._args, environ, folder, self._threads, log)
        )

    def _task_environ(self, task: str, role: str) -> dict[str, str]:
        host, port = self._address
        return self._environ | {
            "MUSTER_JOB": self._job,
            "MUSTER_TASK": task,
            "MUSTER_ROLE": role,
            "MUSTER_COORDINATOR": f"{host}:{port}",
            "MUSTER_TOKEN": self._token,
            "MUSTER_HOST": HOST,
            "MUSTER_THREADS": str(self._threads),
            "MUSTER_DEVICE": self._choose_device(task, role),
        }

    def _choose_device(self, task: str, role: str) -> str:
        """Return the device held by the fewest live workers; servers need none."""
        if role == "server":
            return "cpu"
        if not self._devices:
            return self._environ.get("MUSTER_DEVICE", "")
        living = self._tasks.living
        held = Counter(device for name, device in self._device_of.items() if name in living)
        self._device_of[task] = min(self._devices, key=lambda device: held[device])
        return self._device_of[task]

    def _note_exit(self, event: ChildExited) -> None:
        if event.code:
            self._failed[event.task] = how_ended(event)
        while True:
            with self._changed:
                one = self._coordinator
                if one is None:
                    self._exits.append(event)
                    return
            if one.exited(event.task, how_ended(event)):
                return
            # It was just closed: there is none now, or a new one.


def how_ended(event: ChildExited) -> str:
    """Describe how a process ended."""
    if event.error:
        return event.error
    return f"signal {-event.code}" if event.code < 0 else f"exit code {event.code}"


def threads_each(workers: int, environ: Mapping[str, str]) -> int:
    """Return what the user's environment says, else divide this node's cores by the workers: more
    threads than cores slow each other down."""
    wanted = environ.get("OMP_NUM_THREADS", "")
    if wanted.isascii() and wanted.isdigit() and int(wanted):
        return int(wanted)
    pinned = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if pinned else os.cpu_count() or 1
    return max(1, cores // max(1, workers))
