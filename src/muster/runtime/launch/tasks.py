"""The tasks of this node as the launcher sees them: started by the fork server, signalled, ended."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType

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
    # OpenBLAS, which comes with NumPy, would start threads at import: none may be there at a fork.
    "OPENBLAS_NUM_THREADS": "1",
    # Whether there is a GPU is then asked of NVML, not of CUDA: once begun, that survives no fork.
    "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
}
"""What the fork server's environment must say; its tasks get their own."""

Output = Callable[[str, str], None]
"""Takes a task's name and one line that it has printed."""

LOAD_TIMEOUT = 60.0
"""Seconds for a fork server to load torch and to come to its orders: three where nobody else computes."""

END_TIMEOUT = 10.0
"""Seconds for what has been killed to be gone; milliseconds unless the node is in trouble."""


class Tasks:
    """Starts tasks through a fork server of its own and knows which of them live."""

    def __init__(self, bound: bool = True) -> None:
        """`bound`: the tasks die with this process; else they train on without it."""
        self._on_exit: Callable[[ChildExited], None] = lambda _: None
        self._on_output: Output | None = None
        self._changed = threading.Condition()
        self._living: dict[str, int] = {}
        """Names and process ids; 0: ordered, not yet born."""
        self._loaded: ForkServerReady | None = None
        self._printers: list[threading.Thread] = []
        self._orders, far = socket.socketpair()
        bind = ["--bound"] if bound else []
        environ = os.environ | FORKABLE
        # -P: a `random.py` where the user happens to be must not be loaded in place of Python's.
        command = [
            sys.executable,
            "-P",
            "-m",
            "muster.runtime.launch.fork_server",
            str(far.fileno()),
            *bind,
        ]
        with far:
            # A session of its own: a signal to the launcher's group must not end it before its tasks.
            self._fork_server = subprocess.Popen(
                command, pass_fds=[far.fileno()], env=environ, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, name="muster-tasks", daemon=True)
        self._reader.start()

    def __enter__(self) -> "Tasks":
        """Itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def attach(self, on_exit: Callable[[ChildExited], None], on_output: Output | None = None) -> None:
        """Whom to tell from now on; the tasks of an earlier job must be gone."""
        with self._changed:
            self._on_exit, self._on_output = on_exit, on_output

    def wait_loaded(self, timeout: float = LOAD_TIMEOUT) -> ForkServerReady:
        """Until the fork server has loaded torch; what it says then."""
        with self._changed:
            if self._changed.wait_for(lambda: self._loaded is not None, timeout) and self._loaded:
                return self._loaded
        raise TimeoutError(f"the fork server has not loaded within {timeout:g} s")

    @property
    def pids(self) -> dict[str, int]:
        """The tasks that live, by name."""
        with self._changed:
            return {name: pid for name, pid in self._living.items() if pid}

    @property
    def living(self) -> set[str]:
        """Names of the tasks that live or are about to."""
        with self._changed:
            return set(self._living)

    def start(self, order: StartTask) -> None:
        """Order a task; returns at once."""
        with self._changed:
            self._living[order.task] = 0
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # `_read` tells of the tasks' ends
            if self._on_output and not order.log:
                self._send_piped(replace(order, piped=True), self._on_output)
            else:
                self._orders.sendall(to_line(order))

    def kill(self, task: str, number: int = signal.SIGKILL, timeout: float = LOAD_TIMEOUT) -> bool:
        """Signal a task and what it has started; False when it does not live."""
        with self._changed:
            self._changed.wait_for(lambda: self._living.get(task) != 0, timeout)
            pid = self._living.get(task, 0)
        if pid:
            kill_task(pid, number)
        return pid != 0

    def wait_gone(self, timeout: float) -> bool:
        """Wait until no task lives."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._living, timeout)

    def end_all(self) -> None:
        """Kill what lives; the fork server stays."""
        for task in self.living:
            self.kill(task, timeout=LOAD_TIMEOUT)
        self.wait_gone(END_TIMEOUT)

    def close(self) -> None:
        """Kill what lives, end the fork server."""
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
            printer.join(1.0)  # a process that a task has left behind may hold the pipe for ever

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
        # Universal newlines: a progress bar's "\r" ends a line, too.
        with open(descriptor, encoding="utf-8", errors="replace", newline=None) as lines:
            for line in lines:
                # A terminal that is gone or speaks no Unicode: the pipe is emptied all the same,
                # since a full one would stop the training.
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
        # The fork server has ended, or was killed: its children are nobody's now, so they end, too.
        for task, pid in list(self._living.items()):
            if pid:
                kill_task(pid, signal.SIGKILL)
            self._end(ChildExited(task, pid, -signal.SIGKILL, "the fork server is gone"))

    def _end(self, event: ChildExited) -> None:
        with self._changed:
            self._living.pop(event.task, None)
            self._changed.notify_all()
        self._on_exit(event)
