"""The preloaded parent of a node's tasks: it has imported torch, and starts tasks by forking.

Importing torch takes about three seconds, a fork milliseconds. A fork copies only the forking thread
and breaks CUDA, so this process starts neither threads nor CUDA. Arguments: the descriptor of a socket
for orders and events, --bound if the tasks are killed when the launcher is gone, and modules to load.
"""

import contextlib
import gc
import importlib
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from muster.runtime.launch.child import die_with_parent, leave, run_script, settle
from muster.runtime.launch.fork_protocol import (
    ChildExited,
    ChildStarted,
    ForkServerReady,
    StartTask,
    from_line,
    kill_task,
    to_line,
)

PRELOADED = ("torch.optim", "torch._dynamo", "torch.utils.data", "torch.distributed", "muster")
"""What every training imports sooner or later; the first optimiser imports `torch._dynamo`."""


class ForkServer:
    """Forks tasks and reports when they end."""

    def __init__(self, orders: socket.socket, bound: bool) -> None:
        self._orders, self._bound = orders, bound
        self._wake_in, self._wake_out = socket.socketpair()
        self._tasks: dict[int, str] = {}
        self._outputs: deque[int] = deque()
        self._buffer = b""
        self._listening = True

    def serve(self) -> StartTask | None:
        """Serve; return the order in each child, None in the parent at the end."""
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wake_out.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._tell(ForkServerReady(_threads()))
        while self._listening or self._tasks:
            sources = [self._wake_in, self._orders] if self._listening else [self._wake_in]
            ready, _, _ = select.select(sources, [], [])
            if self._wake_in in ready:
                self._reap()
            if self._orders in ready:
                order = self._listen()
                if order is not None:
                    return order
        return None

    def _listen(self) -> StartTask | None:
        """Read orders; return one in the child that carries it out."""
        try:
            data, outputs, _, _ = socket.recv_fds(self._orders, 65536, 16)
        except OSError:
            data, outputs = b"", []
        if not data:
            self._listening = False
            for pid in self._tasks if self._bound else ():
                kill_task(pid, signal.SIGKILL)
            return None
        self._outputs.extend(outputs)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        for line in lines:
            order = from_line(line)
            if self._start(order):
                return order
        return None

    def _start(self, order: StartTask) -> bool:
        """Fork; True in the child."""
        output = self._outputs.popleft() if order.piped else None
        try:
            pid = os.fork()
        except OSError as problem:
            self._tell(ChildExited(order.task, 0, 1, f"no process could be made: {problem}"))
            pid = -1
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for end in (self._orders, self._wake_in, self._wake_out):
                end.close()
            for other in self._outputs:
                os.close(other)
            if self._bound:
                die_with_parent()
            settle(order, output)
            return True
        if output is not None:
            os.close(output)
        if pid > 0:
            self._tasks[pid] = order.task
            self._tell(ChildStarted(order.task, pid))
        return False

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_in.recv(4096):
                pass
        while self._tasks:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid in self._tasks:
                self._tell(ChildExited(self._tasks.pop(pid), pid, os.waitstatus_to_exitcode(status)))

    def _tell(self, event: ForkServerReady | ChildStarted | ChildExited) -> None:
        with contextlib.suppress(OSError):
            self._orders.sendall(to_line(event))


def preload(more: Sequence[str] = ()) -> None:
    """Import what tasks need, and freeze it: collecting garbage would copy its pages."""
    for name in (*PRELOADED, *_runtime_modules(), *more):
        # Only a head start: what fails to import will fail where it is used.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _runtime_modules() -> list[str]:
    import muster.runtime as runtime

    found = pkgutil.walk_packages(runtime.__path__, "muster.runtime.", onerror=lambda _: None)
    return [
        one.name for one in found if ".launch" not in one.name and not one.name.endswith("__main__")
    ]


def _threads() -> int:
    """Count this process's threads, including those of libraries where the system tells."""
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def main(arguments: list[str]) -> NoReturn:
    """Run the fork server; in a forked child, run the task."""
    # A terminal sends Ctrl-C to the whole foreground group; only the launcher acts on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    orders = socket.socket(fileno=int(arguments[0]))
    preload([each for each in arguments[1:] if each != "--bound"])
    order = ForkServer(orders, bound="--bound" in arguments[1:]).serve()
    preloaded = frozenset(sys.modules)
    leave(run_script(order.script, order.args) if order is not None else 0, preloaded)


if __name__ == "__main__":
    main(sys.argv[1:])
