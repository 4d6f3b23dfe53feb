"""Meters what jobs hold: device-seconds by hour, job and device type, of them idle and lost.

Held is what a job keeps from others, from the moment its devices are taken until they are free. Idle is
the part of it in which it does not run: starting, stopping, waiting to restart. Lost is what it did
after its last checkpoint and must do again, or has done in vain: it was stopped, broke or failed.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from muster.core.quotas.demand import held_by_type
from muster.daemon.loop.fold import Turn
from muster.daemon.loop.job_summaries import is_restarting
from muster.daemon.loop.state import State
from muster.model.event import Checkpointed, Ended, Outcome, Preempted, Requeued
from muster.model.job import Job
from muster.model.task import Fact, job_of
from muster.model.view import JobState, Phase
from muster.store.batch import Use

HOUR = 3600.0
FLUSH = 60.0
"""s after which what is held is written, whatever happens: so much may miss from a budget."""

_RUNNING = (Phase.RUNNING, Phase.RESIZING, Phase.MIGRATING)


@dataclass(frozen=True, slots=True)
class Tab:
    """A job that holds devices, charged up to a moment."""

    job: Job
    devices: Mapping[str, int]
    """By type."""
    works: bool
    until: float
    unsaved: Mapping[str, float] = field(default_factory=dict)
    """Device-seconds by type that a stop would lose."""

    def charged(self, at: float) -> "tuple[Tab, list[Use]]":
        """Charge up to a moment; return the tab after it."""
        if at <= self.until:
            return self, []
        uses, unsaved = [], dict(self.unsaved)
        for begin, end in hours_between(self.until, at):
            for device_type, count in self.devices.items():
                held = count * (end - begin)
                uses.append(self._use(begin, device_type, held, 0.0 if self.works else held, until=end))
        for device_type, count in self.devices.items() if self.works else ():
            unsaved[device_type] = unsaved.get(device_type, 0.0) + count * (at - self.until)
        return replace(self, until=at, unsaved=unsaved), uses

    def lost(self) -> "tuple[Tab, list[Use]]":
        """Count as lost what was not saved."""
        uses = [
            self._use(self.until, device_type, lost=lost, until=self.until)
            for device_type, lost in self.unsaved.items()
        ]
        return replace(self, unsaved={}), uses

    def _use(
        self,
        at: float,
        device_type: str,
        held: float = 0.0,
        idle: float = 0.0,
        lost: float = 0.0,
        *,
        until: float,
    ) -> Use:
        job = self.job
        return Use(
            int(at // HOUR),
            job.number,
            device_type,
            job.user,
            job.pool,
            job.application or (job.sweep.name if job.sweep else job.name),
            held,
            idle,
            lost,
            until,
            labels=json.dumps(dict(sorted(job.labels))) if job.labels else "",
        )


@dataclass(frozen=True, slots=True)
class Charges:
    """What a turn adds: uses to write with its facts, and tabs to adopt once they are written."""

    uses: tuple[Use, ...] = ()
    tabs: Mapping[int, Tab | None] = field(default_factory=dict)
    """None: the job holds nothing any more."""


class Meter:
    """The tabs of all jobs that hold devices."""

    def __init__(self) -> None:
        self._tabs: dict[int, Tab] = {}
        self._flushed = 0.0

    def restore(self, state: State, until: Mapping[int, float]) -> None:
        """Go on from what the last daemon wrote; tasks kept their devices while there was none."""
        for number, job in state.view.jobs.items():
            begun = until.get(number, job.since or job.submitted)
            tab = _opened(state, job, begun, {})
            if tab is not None:
                at_risk = job.at_risk(begun) if tab.works else 0.0
                unsaved = {each: count * at_risk for each, count in tab.devices.items()}
                self._tabs[number] = replace(tab, unsaved=unsaved)

    def charges(self, turn: Turn) -> Charges:
        """Return what the facts of a turn add."""
        uses: list[Use] = []
        tabs: dict[int, Tab | None] = {}
        moments: dict[int, float] = {}
        for fact in turn.facts:
            number = job_of(fact)
            if number is None or (number not in self._tabs and number not in turn.state.view.jobs):
                continue
            moments[number] = max(fact.at, moments.get(number, 0.0))
            tab = tabs[number] if number in tabs else self._tabs.get(number)
            if tab is not None:
                tab, more = _after(tab, fact)
                uses += more
            tabs[number] = tab
        for number, at in moments.items():
            tabs[number], more = self._reopened(turn.state, number, tabs[number], at)
            uses += more
        return Charges(tuple(uses), tabs)

    def flush(self, now: float) -> Charges:
        """Return what has been held since the last writing, if that is a while ago."""
        if now < self._flushed + FLUSH:
            return Charges()
        self._flushed = now
        return self.due(now)

    def due(self, now: float) -> Charges:
        """Return what has been held since the last writing."""
        after = {number: tab.charged(now) for number, tab in self._tabs.items()}
        uses = tuple(use for _, more in after.values() for use in more)
        return Charges(uses, {number: tab for number, (tab, _) in after.items()})

    def adopt(self, charges: Charges) -> None:
        """Take over the tabs of charges that were written."""
        for number, tab in charges.tabs.items():
            if tab is None:
                self._tabs.pop(number, None)
            else:
                self._tabs[number] = tab

    def _reopened(
        self, state: State, number: int, tab: Tab | None, at: float
    ) -> tuple[Tab | None, list[Use]]:
        """Return the tab with what the job holds now; one that no longer works has lost something."""
        uses: list[Use] = []
        job = state.view.jobs.get(number)
        new = None if job is None else _opened(state, job, at, tab.unsaved if tab else {})
        broke = job is not None and is_restarting(job.phase, state.gangs.get(number))
        if tab is not None and tab.works and broke and new is not None:
            lost, uses = tab.lost()
            new = replace(new, unsaved=lost.unsaved)
        return new, uses


def _after(tab: Tab, fact: Fact) -> tuple[Tab, list[Use]]:
    """Charge up to a fact, and count what it saves or loses."""
    tab, uses = tab.charged(fact.at)
    failed = isinstance(fact, Ended) and fact.outcome is Outcome.FAILED
    if isinstance(fact, Checkpointed):
        tab = replace(tab, unsaved={})
    elif failed or isinstance(fact, Preempted | Requeued):
        tab, more = tab.lost()
        uses += more
    return tab, uses


def _opened(state: State, job: JobState, at: float, unsaved: Mapping[str, float]) -> Tab | None:
    """Return the tab of a job from a moment on; None if it holds nothing."""
    devices = held_by_type(state.view.cluster, job.held())
    if not devices:
        return None
    works = job.phase in _RUNNING and not is_restarting(job.phase, state.gangs.get(job.number))
    return Tab(job.job, devices, works, at, unsaved)


def hours_between(begin: float, end: float) -> Iterator[tuple[float, float]]:
    """Yield the parts of a time that lie in one hour each."""
    while begin < end:
        upto = min(end, (begin // HOUR + 1) * HOUR)
        yield begin, upto
        begin = upto
