"""The process that plays futures, seen from the daemon: a thread talks to it, nobody waits for it.

Views are queued as they are, which costs nothing, and sent with the next question as what has changed.
A process that dies is replaced; questions it had not answered fail.
"""

import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from muster.core.cycle.cycle import Memory
from muster.core.planners.delta import delta
from muster.daemon.foresight.messages import (
    Answered,
    AskedQuestion,
    ForesightError,
    Question,
    RememberedPast,
    SeenView,
)
from muster.daemon.planners.child_process import ChildProcess
from muster.daemon.planners.line import HungUpError
from muster.daemon.planners.pickles import dumps, loads
from muster.model.view import View

log = structlog.get_logger()

PATIENCE = 60.0
"""s in which it must take a message: it reads all the time."""
KEPT = 64
"""Views kept until they are sent: more are sent without a question."""
AGAIN = 5.0
"""s until one that died is replaced, and as many more for each that died before it has answered."""
LONGEST = 300.0
"""Most s until one is replaced."""


@dataclass(frozen=True, slots=True)
class _View:
    """A view after a cycle."""

    view: View
    now: float
    stopped: frozenset[int]


class ForesightProcess:
    """A child process, the thread that talks to it, and the questions that are open."""

    def __init__(self, remembered: Callable[[], RememberedPast] = RememberedPast) -> None:
        """`remembered`: reads what a process starts with; called in the thread."""
        self._remembered = remembered
        self._child: ChildProcess | None = None
        self._views: deque[_View] = deque(maxlen=KEPT)
        self._asked: deque[AskedQuestion] = deque()
        self._open: dict[int, Future[Any]] = {}
        self._numbers = 0
        self._lock = threading.Lock()
        self._sockets: tuple[socket.socket, socket.socket] | None = None
        """Wakes the thread: written to on the right, read on the left. Those of a started one."""
        self._closing = False
        self._died, self._not_before = 0, 0.0
        self._thread = threading.Thread(target=self._run, name="muster-foresight", daemon=True)
        self.replaced = 0
        self.busy = 0.0
        """s of processor time of the last answer."""

    @property
    def pid(self) -> int | None:
        """Of the process, if there is one."""
        return None if self._child is None else self._child.process.pid

    def start(self) -> None:
        """Start the thread; the process starts with the first question."""
        self._sockets = socket.socketpair()
        self._sockets[1].setblocking(False)
        self._thread.start()

    def see(self, view: View, now: float, stopped: frozenset[int] = frozenset()) -> None:
        """Take in the view after a cycle."""
        with self._lock:
            if len(self._views) == KEPT:  # the jobs that somebody stopped stay known
                stopped |= self._views[0].stopped
            self._views.append(_View(view, now, stopped))
            full = len(self._views) == KEPT and self._child is not None
        if full:
            self._wake()

    def ask(
        self, question: Question, policy: str, memory: Memory, *, yields: bool = False
    ) -> "Future[Any]":
        """Ask about the view seen last; `yields`: other questions may be answered in between."""
        found: Future[Any] = Future()
        with self._lock:
            if self._closing:
                found.set_exception(ForesightError("the daemon is closing"))
                return found
            self._numbers += 1
            self._open[self._numbers] = found
            self._asked.append(AskedQuestion(self._numbers, question, policy, memory, yields))
        self._wake()
        return found

    def close(self) -> None:
        """End the process and the thread; open questions fail."""
        with self._lock:
            self._closing = True
        self._wake()
        if self._thread.is_alive():
            self._thread.join(10.0)
        self._fail("the daemon is closing")
        for each in self._sockets or ():
            each.close()

    def _wake(self) -> None:
        if self._sockets is not None:
            with suppress(OSError):  # full: it wakes anyway
                self._sockets[1].send(b"x")

    # --- in the thread ---

    def _run(self) -> None:
        while not self._closing:
            try:
                self._turn()
            except (HungUpError, OSError) as error:
                self._drop(str(error))
            except Exception:
                log.exception("foresight failed")
                self._drop("failed")
        if self._child is not None:
            self._child.end()

    def _turn(self) -> None:
        child = self._wanted()
        assert self._sockets is not None
        woken = self._sockets[0]
        listening: list[Any] = [woken] if child is None else [woken, child]
        ready, _, _ = select.select(listening, [], [], 1.0)
        if woken in ready:
            woken.recv(4096)
        if child is None or self._closing:
            return
        if child in ready:
            if not child.is_ready():
                return
            if child.has_answered():
                self._take(loads(child.receive(PATIENCE)))
        if child.is_ready():
            self._send(child)

    def _wanted(self) -> ChildProcess | None:
        """Return the process; start one if there is a question."""
        if self._child is None and self._asked and time.monotonic() >= self._not_before:
            self._child = ChildProcess("muster.daemon.foresight", dumps(self._remembered()))
        return self._child

    def _send(self, child: ChildProcess) -> None:
        with self._lock:
            views = list(self._views) if self._asked or len(self._views) == KEPT else []
            if views:
                self._views.clear()
            asked = list(self._asked)
            self._asked.clear()
        for each in views:
            message = SeenView(delta(child.seen, each.view), each.now, each.stopped)
            child.ask(each.view, (dumps(message),), PATIENCE)
        if child.seen is None and asked:  # a process that is new has not seen any
            raise HungUpError("asked before a view was seen")
        for question in asked:
            try:
                message_bytes = dumps(question)
            except Exception as error:
                self._take(Answered(question.number, problem=f"cannot be sent: {error}"))
                continue
            assert child.seen is not None
            child.ask(child.seen, (message_bytes,), PATIENCE)

    def _take(self, answer: Answered) -> None:
        with self._lock:
            found = self._open.pop(answer.number, None)
        self._died, self.busy = 0, answer.seconds
        if found is None or not found.set_running_or_notify_cancel():
            return
        if answer.problem:
            found.set_exception(ForesightError(answer.problem))
        else:
            found.set_result(answer.value)

    def _drop(self, why: str) -> None:
        """End a process that died; another starts with the next question after a while."""
        if self._closing:
            return
        self._died += 1
        wait = min(AGAIN * self._died, LONGEST)
        self._not_before = time.monotonic() + wait
        log.warning("foresight replaced; its questions are not answered", problem=why, again=wait)
        self.replaced += 1
        if self._child is not None:
            self._child.end()
            self._child = None
        self._fail(f"the process that plays futures has died: {why}")

    def _fail(self, why: str) -> None:
        with self._lock:
            failed, self._open = self._open, {}
            self._asked.clear()
        for each in failed.values():
            if each.set_running_or_notify_cancel():
                each.set_exception(ForesightError(why))
