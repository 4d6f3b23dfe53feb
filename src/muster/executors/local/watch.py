"""One thread that waits for all at once: ends of processes, hang-ups, timers, and calls to it."""

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
"""Seconds between two looks at a process where the system cannot tell of its end (Linux before 5.3)."""

_log = logging.getLogger(__name__)


class ProcessWatcher:
    """Makes calls in a thread of its own, one after the other."""

    def __init__(self, name: str) -> None:
        self._posted: deque[Call] = deque()
        self._timers: list[tuple[float, int, Call]] = []
        self._order = count()
        self._selector = selectors.DefaultSelector()
        self._closing = False
        self._gate = threading.Lock()
        """Held to use the voice: a descriptor that was closed may by then be somebody else's."""
        self._ear, self._voice = os.pipe()
        for end in (self._ear, self._voice):
            os.set_blocking(end, False)
        self._selector.register(self._ear, selectors.EVENT_READ, self._drain)
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def post(self, call: Call) -> None:
        """Make a call, after those that were posted before; from any thread."""
        with self._gate:
            if not self._closing:
                self._posted.append(call)
                with contextlib.suppress(BlockingIOError):  # a full pipe wakes the thread just as well
                    os.write(self._voice, b"!")

    def close(self) -> None:
        """Stop, and let go of everything; what is posted is still done."""
        self.post(self._stop)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def later(self, seconds: float, call: Call) -> None:
        """Make a call when that time has passed; from a call of this thread."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), call))

    def on_hang_up(self, descriptor: int, call: Call) -> None:
        """Make a call when the other end of a pipe is closed; the descriptor is closed then, too."""
        self._register(descriptor, call)

    def on_end(self, process: ProcessIdentity, call: Call) -> None:
        """Make a call when the process has ended; at once if it has."""
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            self.post(call)
        except (AttributeError, OSError):
            self._poll(process, call)
        else:
            # Asked after it was opened: if the process is the one that was meant, so is what is open.
            if process.alive:
                self._register(descriptor, call, ended=True)
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

    def _register(self, descriptor: int, call: Call, ended: bool = False) -> None:
        def once() -> None:
            self._selector.unregister(descriptor)
            if ended:
                _reap(descriptor)
            os.close(descriptor)
            call()

        self._selector.register(descriptor, selectors.EVENT_READ, once)

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
        os.close(self._voice)
        self._selector.close()

    def _idle(self) -> float | None:
        """Seconds until the next timer."""
        if self._posted:
            return 0.0
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _make(self, call: Call) -> None:
        try:
            call()
        except Exception:
            # One task's trouble must not end the watch over all others.
            _log.exception("a call of the watch failed")

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._ear, 4096)

    def _stop(self) -> None:
        with self._gate:
            self._closing = True


def _reap(descriptor: int) -> None:
    """Take note of a child's end, so that the system can forget it; others are not ours to note."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
