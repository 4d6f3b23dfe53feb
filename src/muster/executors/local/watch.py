"""One thread that waits for ends of processes, closed pipes, timers and posted calls."""

import contextlib
import heapq
import logging
import os
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable
from itertools import count

from muster.executors.local.identity import ProcessIdentity

Call = Callable[[], None]

POLL = 0.2
"""s between two checks of a process where pidfds are missing (Linux before 5.3)."""

_log = logging.getLogger(__name__)


class ProcessWatcher:
    """Runs calls in its own thread, one at a time."""

    def __init__(self, name: str) -> None:
        self._posted: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._order = count()
        self._selector = selectors.DefaultSelector()
        self._closing = False
        self._gate = threading.Lock()
        """Held to write to the pipe: once closed, its descriptor may be reused."""
        self._wake_in, self._wake_out = os.pipe()
        for end in (self._wake_in, self._wake_out):
            os.set_blocking(end, False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._drain)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def post(self, call: Call) -> None:
        """Run a call after those posted before; from any thread."""
        with self._gate:
            if not self._closing:
                self._posted.append(call)
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes the thread, too
                    os.write(self._wake_out, b"!")

    def close(self) -> None:
        """Stop after the calls already posted, and close all descriptors."""
        self.post(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def later(self, seconds: float, call: Call) -> None:
        """Run a call after that time; from a call of this thread."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def on_hang_up(self, descriptor: int, call: Call, ended: bool = False) -> None:
        """Run a call when a pipe hangs up (a process has `ended`), and close the descriptor."""

        def once() -> None:
            self._selector.unregister(descriptor)
            if ended:
                _reap(descriptor)
            os.close(descriptor)
            call()

        self._selector.register(descriptor, selectors.EVENT_READ, once)

    def on_end(self, process: ProcessIdentity, call: Call) -> None:
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self.post(call)
        except (AttributeError, OSError):
            self._poll(process, call)
        else:
            # Checked after opening: if it is still that process, so is the descriptor's.
            if process.alive:
                self.on_hang_up(descriptor, call, ended=True)
            else:
                _reap(descriptor)
                os.close(descriptor)
                self.post(call)

    def _poll(self, process: ProcessIdentity, call: Call) -> None:
        if process.alive:
            self.later(POLL, lambda: self._poll(process, call))
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(process.pid, os.WNOHANG)
        call()

    def _work(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(self._idle()):
                self._make(key.data)
            while self._posted and not self._closing:
                self._make(self._posted.popleft())
            while self._timers and self._timers[0][0] <= time.monotonic():
                self._make(heapq.heappop(self._timers)[2])
        for key in list(self._selector.get_map().values()):
            os.close(key.fd)
        os.close(self._wake_out)
        self._selector.close()

    def _idle(self) -> float | None:
        """s until the next timer."""
        if self._posted:
            return 0.0
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _make(self, call: Call) -> None:
        try:
            call()
        except Exception:
            # One task's failure must not affect the others.
            _log.exception("a call failed")

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_in, 4096)

    def _stop(self) -> None:
        with self._gate:
            self._closing = True


def _reap(descriptor: int) -> None:
    """Wait for an ended child so that the system can forget it; other processes are not ours."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
