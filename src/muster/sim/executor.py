"""An executor and a clock without machines: what was ordered comes true after its time has passed."""

import heapq
from collections.abc import Sequence
from itertools import count

from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, Migrated, Outcome, Preempted, Resized, Started
from muster.model.job import Job

HOUR = 3600.0
"""Run time of a job that gives no duration."""


class VirtualClock:
    """Time that moves only when told."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        """Seconds since the play began."""
        return self._now

    def move_to(self, moment: float) -> None:
        """Let time pass; it never runs backwards."""
        self._now = max(self._now, moment)


class VirtualExecutor:
    """Starts are immediate; a change or a stop takes the job's pause; a run takes its duration.

    A job that was stopped begins anew. How fast a job runs on what it holds is not known here: its
    duration is taken as given, whatever its size.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, Event]] = []
        self._order = count()

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Put on the calendar what the order leads to."""
        now, name, generation = self._clock.now(), job.name, decision.generation
        if decision.kind is Kind.START:
            self._at(now, Started(name, generation, now))
            end = now + (job.duration if job.duration is not None else HOUR)
            self._at(end, Ended(name, generation, Outcome.SUCCEEDED, end))
        elif decision.kind is Kind.RESIZE:
            self._at(now + job.pause, Resized(name, generation, now + job.pause))
        elif decision.kind is Kind.MIGRATE:
            self._at(now + job.pause, Migrated(name, generation, now + job.pause))
        elif decision.kind is Kind.PREEMPT:
            self._at(now + job.pause, Preempted(name, generation, now + job.pause))

    def collect(self) -> Sequence[Event]:
        """What has come true by now."""
        events: list[Event] = []
        while self._due and self._due[0][0] <= self._clock.now():
            events.append(heapq.heappop(self._due)[2])
        return events

    def next_due(self) -> float | None:
        """When something comes true next."""
        return self._due[0][0] if self._due else None

    def _at(self, moment: float, event: Event) -> None:
        heapq.heappush(self._due, (moment, next(self._order), event))
