"""The cycle in a thread of its own, with what it remembers from one decision to the next."""

import asyncio
import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.check import BrokenInvariantError, check
from muster.model.view import Phase, View
from muster.policy.registry import POLICIES

log = structlog.get_logger()


def startable(view: View, now: float) -> View:
    """Return the view without waiting jobs that may not start: those on hold, or delayed by losses."""
    kept = {
        number
        for number, state in view.jobs.items()
        if state.phase is Phase.WAITING and not state.may_start(now)
    }
    if not kept:
        return view
    jobs = {number: state for number, state in view.jobs.items() if number not in kept}
    return replace(view, jobs=jobs)


def next_start(view: View, now: float) -> float:
    """Return when the next of the delays after losses is over."""
    ends = (state.not_before for state in view.jobs.values() if state.not_before > now)
    return min(ends, default=math.inf)


class CycleThread:
    """Decides off the event loop, one view at a time."""

    def __init__(self, policy: str) -> None:
        self.policy, self.cycle, self.memory = policy, Cycle(POLICIES[policy]), Memory()
        self._thread = ThreadPoolExecutor(1, "muster-cycle")

    def decide(self, view: View, now: float) -> "asyncio.Future[Decisions | None]":
        """Decide on a view; the result is None if the decisions break an invariant."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, self._decide, view, now)

    def _decide(self, view: View, now: float) -> Decisions | None:
        try:
            decided = self.cycle.decide(view, now, self.memory)
            check(view, decided)
        except BrokenInvariantError as error:
            log.error("dropped decisions that break an invariant", invariant=str(error))
            self.cycle = Cycle(POLICIES[self.policy])
            return None
        return decided

    def set_policy(self, name: str) -> None:
        """Use another policy from now on; it starts without the memory of the previous one."""
        self.policy, self.cycle = name, Cycle(POLICIES[name])
        self.memory = replace(self.memory, policy=None)

    def close(self) -> None:
        """Wait for the thread to end."""
        self._thread.shutdown(wait=True)
