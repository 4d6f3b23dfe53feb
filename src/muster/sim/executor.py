"""An executor and a clock without machines: what was ordered comes true after its time has passed."""

import heapq
from collections import Counter
from collections.abc import Sequence
from itertools import count

from muster.model.decision import Decision, Kind
from muster.model.event import Ended, Event, JobEvent, Migrated, Outcome, Preempted, Resized, Started
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
    duration is taken as given, whatever its size. Once a run has ended or was stopped, whichever
    comes first, nothing more is heard of it.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._due: list[tuple[float, int, int, JobEvent]] = []
        self._order = count()
        self._run: Counter[str] = Counter()
        """For each job, the number of its present run; what is due for an older one is dropped."""

    def carry_out(self, job: Job, decision: Decision) -> None:
        """Put on the calendar what the order leads to."""
        now, name, generation = self._clock.now(), job.name, decision.generation
        later = now + job.pause
        if decision.kind is Kind.START:
            self._run[name] += 1
            self._at(now, Started(name, generation, now))
            end = now + (job.duration if job.duration is not None else HOUR)
            self._at(end, Ended(name, generation, Outcome.SUCCEEDED, end))
        elif decision.kind is Kind.RESIZE:
            self._at(later, Resized(name, generation, later))
        elif decision.kind is Kind.MIGRATE:
            self._at(later, Migrated(name, generation, later))
        elif decision.kind is Kind.PREEMPT:
            self._at(later, Preempted(name, generation, later))

    def collect(self) -> Sequence[Event]:
        """What has come true by now, in the order in which it did."""
        events: list[Event] = []
        while (due := self.next_due()) is not None and due <= self._clock.now():
            event = heapq.heappop(self._due)[3]
            events.append(event)
            if isinstance(event, Ended | Preempted):
                self._run[event.job] += 1
        return events

    def next_due(self) -> float | None:
        """When something comes true next."""
        while self._due and self._due[0][2] < self._run[self._due[0][3].job]:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def _at(self, moment: float, event: JobEvent) -> None:
        heapq.heappush(self._due, (moment, next(self._order), self._run[event.job], event))
