"""The launcher's view of this node's tasks: started by the fork server, signalled, ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from muster.runtime.launch.fork_protocol import (
    ChildExited,
    ChildStarted,
    ForkServerReady,
    StartTask,
    from_line,
    kill_task,
    to_line,
)

FORKABLE = {
    # OpenBLAS, which comes with NumPy, would start threads at import; a fork must have none.
    "OPENBLAS_NUM_THREADS": "1",
    # Ask NVML, not CUDA, whether there is a GPU: CUDA does not survive a fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
"""Environment of the fork server; its tasks get their own."""

Output = Callable[[str, str], None]
"""Gets a task's name and a line of its output."""

LOAD_TIMEOUT = 60.0
"""Seconds for a fork server to load torch: three on an idle node."""

END_TIMEOUT = 10.0
"""Seconds for killed tasks to be gone; usually milliseconds."""


class Tasks:
    """Starts tasks through its own fork server and tracks which are alive."""

    def __init__(self, bound: bool = True, preload: Sequence[str] = ()) -> None:
        """`bound`: the tasks die with this process; `preload`: modules to load besides torch."""
        self._on_exit: Callable[[ChildExited], None] = lambda _: None
        self._on_output: Output | None = None
        self._changed = threading.Condition()
        self._living: dict[str, int] = {}
        """Process ids by name; 0: ordered, not started yet."""
        self._loaded: ForkServerReady | None = None
        self._printers: list[threading.Thread] = []
        self._orders, far = socket.socketpair()
        environ = os.environ | FORKABLE
        # -P: do not load a `random.py` of the current folder in place of Python's.
        module, bind = "muster.runtime.launch.fork_server", ["--bound"] if bound else []
        command = [sys.executable, "-P", "-m", module, str(far.fileno()), *bind, *preload]
        with far:
            # Its own session: a signal to the launcher's group must not end it before its tasks.
            self._fork_server = subprocess.Popen(
                command, pass_fds=[far.fileno()], env=environ, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, name="muster-tasks", daemon=True)
        self._reader.start()

    def __enter__(self) -> "Tasks":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def attach(self, on_exit: Callable[[ChildExited], None], on_output: Output | None = None) -> None:
        """Set who is told; the tasks of an earlier job must be gone."""
        with self._changed:
            self._on_exit, self._on_output = on_exit, on_output

    def wait_loaded(self, timeout: float = LOAD_TIMEOUT) -> ForkServerReady:
        """Wait until the fork server has loaded torch; return its message."""
        with self._changed:
            if self._changed.wait_for(lambda: self._loaded is not None, timeout) and self._loaded:
                return self._loaded
        raise TimeoutError(f"the fork server has not loaded within {timeout:g} s")

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the live tasks."""
        with self._changed:
            return {name: pid for name, pid in self._living.items() if pid}

    @property
    def living(self) -> set[str]:
        """Names of the tasks that are alive or starting."""
        with self._changed:
            return set(self._living)

    def start(self, order: StartTask) -> None:
        """Start a task; do not wait for it."""
        with self._changed:
            self._living[order.task] = 0
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # `_read` reports the tasks' ends
            if self._on_output and not order.log:
                self._send_piped(replace(order, piped=True), self._on_output)
            else:
                self._orders.sendall(to_line(order))

    def kill(self, task: str, number: int = signal.SIGKILL, timeout: float = LOAD_TIMEOUT) -> bool:
        """Signal a task and its child processes; False if it is not alive."""
        with self._changed:
            self._changed.wait_for(lambda: self._living.get(task) != 0, timeout)
            pid = self._living.get(task, 0)
        if pid:
            kill_task(pid, number)
        return pid != 0

    def wait_gone(self, timeout: float) -> bool:
        """Wait until no task is alive; False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._living, timeout)

    def end_all(self) -> None:
        """Kill all tasks; keep the fork server."""
        for task in self.living:
            self.kill(task, timeout=LOAD_TIMEOUT)
        self.wait_gone(END_TIMEOUT)

    def close(self) -> None:
        """Kill all tasks and end the fork server."""
        for task in self.living:
            self.kill(task, timeout=0)
        with contextlib.suppress(OSError):
            self._orders.shutdown(socket.SHUT_WR)
        if not self.wait_gone(END_TIMEOUT):
            self._fork_server.kill()
        self._fork_server.wait()
        self._reader.join(END_TIMEOUT)
        self._orders.close()
        for printer in self._printers:
            printer.join(1.0)  # an orphaned process may hold the pipe open

    def _send_piped(self, order: StartTask, on_output: Output) -> None:
        read, write = os.pipe()
        printer = threading.Thread(target=self._print, args=(order.task, read, on_output), daemon=True)
        printer.start()
        self._printers.append(printer)
        try:
            line = to_line(order)
            sent = socket.send_fds(self._orders, [line], [write])
            self._orders.sendall(line[sent:])
        finally:
            os.close(write)

    def _print(self, task: str, descriptor: int, on_output: Output) -> None:
        # Universal newlines: the "\r" of a progress bar also ends a line.
        with open(descriptor, encoding="utf-8", errors="replace", newline=None) as lines:
            for line in lines:
                # Keep reading when the terminal is gone or not Unicode: a full pipe would stop the
                # training.
                with contextlib.suppress(OSError, ValueError):
                    on_output(task, line.rstrip("\n"))

    def _read(self) -> None:
        with self._orders.makefile("rb") as events:
            for line in events:
                event = from_line(line)
                if isinstance(event, ChildExited):
                    self._end(event)
                    continue
                with self._changed:
                    if isinstance(event, ChildStarted):
                        self._living[event.task] = event.pid
                    else:
                        self._loaded = event
                    self._changed.notify_all()
        # The fork server has ended or was killed: end its children too.
        for task, pid in list(self._living.items()):
            if pid:
                kill_task(pid, signal.SIGKILL)
            self._end(ChildExited(task, pid, -signal.SIGKILL, "the fork server is lost"))

    def _end(self, event: ChildExited) -> None:
        with self._changed:
            self._living.pop(event.task, None)
            self._changed.notify_all()
        self._on_exit(event)
