"""The cycle in a thread of its own, with what it remembers from one decision to the next."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import structlog

from muster.core.cycle.cycle import Cycle, Decisions, Memory
from muster.core.state.check import BrokenInvariantError, check
from muster.daemon.decider.news import News
from muster.daemon.decider.process import SLOW, DeciderProcess
from muster.daemon.loop.places import QueuePlaces
from muster.daemon.planners.processes import PlannerProcesses
from muster.model.view import JobState, View
from muster.policy.registry import POLICIES

log = structlog.get_logger()

SLOW_CYCLES = 2
"""Slow cycles in a row that call for a decider: the first of a daemon also fills its caches."""


class CycleThread:
    """Decides off the event loop, one view at a time: in a thread, or once that is slow, in a process
    of its own (docs/adr/0026-a-slow-cycle-decides-in-a-process-of-its-own.md)."""

    def __init__(self, policy: str, planners: int = 1, slow: float = SLOW) -> None:
        """`planners`: more than one plan in processes of their own; `slow`: s of processor time from
        which a cycle is."""
        self._count, self.planners = planners, _processes(policy, planners)
        self.policy, self.cycle, self.memory = policy, self._cycle(policy), Memory()
        self._slow, self.decider = slow, DeciderProcess(policy, planners)
        self._slow_cycles, self._decided_here = 0, False
        self._news, self._last = News(), Memory()
        """What the cycle here has told, and remembered with it."""
        self._thread = ThreadPoolExecutor(1, "muster-cycle")

    def _cycle(self, policy: str) -> Cycle:
        return Cycle(POLICIES[policy], planners=self.planners)

    def decide(self, view: View, now: float) -> "asyncio.Future[Decisions | None]":
        """Decide on a view; the result has all decisions but those to wait as before, and is None if
        they break an invariant."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, self._decide, view, now)

    def ranked(
        self, order: Sequence[int], jobs: Mapping[int, JobState], now: float
    ) -> "asyncio.Future[QueuePlaces]":
        """Return the places of waiting jobs in an order: sorting thousands takes some 10 ms."""
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._thread, QueuePlaces, jobs, order, now)

    @property
    def is_apart(self) -> bool:
        """Whether the last cycle was decided in a process of its own."""
        child = self.decider.child
        return child is not None and child.seen is not None and not self._decided_here

    async def remembered(self) -> Memory:
        """Return all that is remembered, after the cycle that decides now, if one does."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self.decider.memory, self.memory)

    def _decide(self, view: View, now: float) -> Decisions | None:
        decided = self.decider.decide(view, now, self.memory)
        if decided is None:
            return self._decide_here(view, now)
        self._leave_it_to_the_decider()
        if isinstance(decided, str):
            _tell_broken(decided)
            return None
        return decided

    def _decide_here(self, view: View, now: float) -> Decisions | None:
        begun, self._decided_here = time.thread_time(), True
        try:
            decided = self.cycle.decide(view, now, self.memory)
            check(view, decided)
        except BrokenInvariantError as error:
            _tell_broken(str(error))
            self.cycle = self._cycle(self.policy)
            return None
        news = self._news.of(decided.decisions, adopted=self.memory is self._last)
        self._last = decided.memory
        slow = time.thread_time() - begun > self._slow
        self._slow_cycles = self._slow_cycles + 1 if slow else 0
        if self._slow_cycles == SLOW_CYCLES:
            self.decider.start()
        return replace(decided, decisions=news)

    def _leave_it_to_the_decider(self) -> None:
        """Drop what the cycle here keeps, and its planners: the decider has its own."""
        if self._decided_here:
            self._decided_here, self._news = False, News()
            if self.planners is not None:
                self.planners.close()
                self.planners = None
            self.cycle = self._cycle(self.policy)

    def set_policy(self, name: str) -> None:
        """Use another policy from now on; it starts without the memory of the previous one."""
        if self.planners is not None:
            self.planners.close()
            self.planners = _processes(name, self._count)
        before, self.decider = self.decider, DeciderProcess(name, self._count)
        if before.child is not None:
            self._thread.submit(before.close)
            self.decider.start()
        self.policy, self.cycle = name, self._cycle(name)
        self.memory = replace(self.memory, policy=None)

    def close(self) -> None:
        """Wait for the thread to end."""
        self._thread.shutdown(wait=True)
        self.decider.close()
        if self.planners is not None:
            self.planners.close()


def _tell_broken(invariant: str) -> None:
    log.error("dropped decisions that break an invariant", invariant=invariant)


def _processes(policy: str, count: int) -> PlannerProcesses | None:
    return PlannerProcesses(policy, count) if count > 1 else None
