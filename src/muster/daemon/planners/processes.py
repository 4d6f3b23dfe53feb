"""Planners in processes: what they are sent, and what happens when one dies or hangs.

All get the same view at the same time, as what has changed since the last; what they propose comes back
to the centre, which approves or refuses it. A planner that is not ready, dies, or does not answer in
time has nothing to say in this cycle: the centre plans for its pools, and another takes its place.
"""

import time
from collections.abc import Iterator

import structlog

from muster.core.cycle.cycle_state import Rules
from muster.core.planners.delta import delta
from muster.core.planners.divide import Division
from muster.core.planners.proposal import CycleQuestion, Proposal
from muster.daemon.planners.line import HungUpError
from muster.daemon.planners.pickles import dumps
from muster.daemon.planners.process import PlannerProcess
from muster.model.view import View

log = structlog.get_logger()

PATIENCE = 10.0
"""s in which a planner must answer: some ten times what a cycle at 16,384 devices takes."""
READING = 1.0
"""s to read an answer that is there."""


class PlannerProcesses:
    """A number of planners, each in a process of its own."""

    def __init__(
        self, policy: str, count: int, rules: Rules | None = None, patience: float = PATIENCE
    ) -> None:
        self._division, self._patience = Division(count), patience
        self._setups = [dumps((policy, rules, place, count)) for place in range(count)]
        self.processes = [PlannerProcess(setup) for setup in self._setups]
        self.sent = 0
        """Bytes of the last question to all."""
        self.replaced = 0

    def propose(self, asked: CycleQuestion) -> list[Proposal]:
        """Return what planners propose in time."""
        parts = self._division.of(asked.view)
        end = time.monotonic() + self._patience
        waiting = list(self._ask(asked, parts, end))
        return [found for at in waiting if (found := self._answer(at, end)) is not None]

    def wait_until_ready(self, within: float = 60.0) -> None:
        """Wait until all have started."""
        for process in self.processes:
            process.is_ready(within)

    def close(self) -> None:
        """End all planners."""
        for process in self.processes:
            process.end()

    def _ask(
        self, asked: CycleQuestion, parts: tuple[frozenset[str], ...], end: float
    ) -> Iterator[int]:
        """Send each planner its question; yield those that got it."""
        question = dumps((asked.now, asked.entitled, asked.mood, asked.promises))
        changes: dict[int | None, bytes] = {}
        self.sent = 0
        for at, pools in enumerate(parts):
            process = self.processes[at]
            try:
                if not process.is_ready():
                    continue
                change = self._change(process.seen, asked.view, changes)
                messages = (change, question, dumps(pools))
                process.ask(asked.view, messages, end - time.monotonic())
                self.sent += sum(map(len, messages))
                yield at
            except HungUpError as error:
                self._replace(at, error)

    def _change(self, seen: View | None, view: View, known: dict[int | None, bytes]) -> bytes:
        """Return what leads from one view to another, made once for all that have seen the same."""
        key = None if seen is None else id(seen)
        if key not in known:
            known[key] = dumps(delta(seen, view))
        return known[key]

    def _answer(self, at: int, end: float) -> Proposal | None:
        process, left = self.processes[at], end - time.monotonic()
        if process.has_answered():  # whatever time another has used up
            left = max(left, READING)
        try:
            return process.answer(left)
        except HungUpError as error:
            self._replace(at, error)
            return None

    def _replace(self, at: int, error: HungUpError) -> None:
        log.warning("planner replaced; the daemon plans for its pools", planner=at, problem=str(error))
        self.processes[at].end()
        self.processes[at] = PlannerProcess(self._setups[at])
        self.replaced += 1
