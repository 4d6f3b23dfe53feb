"""The decider in a child process: started once cycles are slow, replaced if it dies or hangs."""

import time
from dataclasses import replace

import structlog

from muster.core.cycle.cycle import Decisions, Memory
from muster.core.planners.delta import delta
from muster.daemon.decider.decider import DeciderQuestion
from muster.daemon.planners.child_process import ChildProcess
from muster.daemon.planners.line import HungUpError
from muster.daemon.planners.pickles import dumps, loads
from muster.model.view import View

log = structlog.get_logger()

PATIENCE = 30.0
"""s in which it must answer: some thirty times what a cycle at 16,384 devices takes."""
SLOW = 0.05
"""s of processor time from which a cycle is slow: what a list may take while one decides."""


class DeciderProcess:
    """The child process, if there is one, and the memory of its last answer."""

    def __init__(self, policy: str, planners: int, patience: float = PATIENCE) -> None:
        self._setup, self._patience = dumps((policy, planners)), patience
        self.child: ChildProcess | None = None
        self._last: Memory | None = None
        """As the last answer has it."""
        self.replaced = 0

    def start(self) -> None:
        """Start it, unless it is."""
        if self.child is None:
            self.child = ChildProcess("muster.daemon.decider", self._setup)
            self._last = None

    def decide(self, view: View, now: float, memory: Memory) -> Decisions | str | None:
        """Return what is new in its decisions, or the invariant that they would break; None: it cannot
        tell now."""
        child = self.child
        try:
            if child is None or not child.is_ready():
                return None
            end = time.monotonic() + self._patience
            first = child.seen is None
            begin = memory if first else None
            asked = DeciderQuestion(now, self._is_adopted(memory), begin, memory.promises)
            messages = (dumps(delta(child.seen, view)), dumps(asked))
            child.ask(view, messages, self._patience)
            found = loads(child.receive(end - time.monotonic()))
        except HungUpError as error:
            self._replace(error)
            return None
        if not isinstance(found, Decisions):
            return str(found)
        self._last = found.memory
        return found

    def memory(self, known: Memory) -> Memory:
        """Return all that it remembers; `known`: what the daemon does."""
        child = self.child
        if child is None or child.seen is None or not self._is_adopted(known):
            return known
        try:
            child.ask(child.seen, (dumps(None),), self._patience)
            found = loads(child.receive(self._patience))
        except HungUpError as error:
            self._replace(error)
            return known
        assert isinstance(found, Memory)
        return replace(found, promises=known.promises)

    def _is_adopted(self, memory: Memory) -> bool:
        """Whether the daemon has adopted the last answer: every answer has a mood of its own, which
        promises made since leave as it is."""
        return self._last is not None and memory.mood is self._last.mood

    def close(self) -> None:
        """End it."""
        if self.child is not None:
            self.child.end()
            self.child = None

    def _replace(self, error: HungUpError) -> None:
        log.warning("decider replaced; the daemon decides meanwhile", problem=str(error))
        self.close()
        self.start()
        self.replaced += 1
