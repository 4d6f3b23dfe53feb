"""Plays sweeps beside a trace's jobs: what becomes of members is decided by `core/sweeps`.

A member is a job from rung to rung: at a rung its devices come free, and if it goes on, its next job is
submitted at that moment. The daemon lets such a member keep its devices; a simulated one pays a start
more for each rung that it passes.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import inf

from muster.core.sweeps.next_steps import Doing, NextSteps, next_steps
from muster.core.sweeps.sweep_state import PRUNED, SweepState, fold_sweep
from muster.model.event import Cancelled, Ended, Outcome
from muster.model.sweep import MemberPromoted, MemberSubmitted, RungReached
from muster.model.task import Fact, StopAsked
from muster.sim.sweeps.played_sweep import PlayedSweep
from muster.sim.truth import Arrival

FIRST = 1_000_000_000
"""The number of the first job of a sweep: beyond those of any trace."""


@dataclass(slots=True)
class _Live:
    """A sweep that is played: its state as the daemon folds it."""

    played: PlayedSweep
    state: SweepState
    doing: dict[int, Doing] = field(default_factory=dict)
    legs: dict[int, int] = field(default_factory=dict)
    """Rungs that members have reached."""

    def fold(self, fact: Fact) -> None:
        self.state = fold_sweep({self.state.sweep.number: self.state}, fact)[self.state.sweep.number]


class SweepsDriver:
    """All sweeps of a simulation."""

    def __init__(self, sweeps: Iterable[PlayedSweep]) -> None:
        self._coming = sorted(sweeps, key=lambda each: each.at)
        self._next = FIRST
        self._members: dict[int, tuple[_Live, int]] = {}
        """The sweep and position of each job under way."""
        self._due: list[Arrival] = []
        self._lives: list[_Live] = []
        self.names: set[str] = set()
        """Of all jobs that were submitted."""
        self.pruned: dict[str, int] = {}
        """Epochs that members have trained for when they were stopped, by name."""

    def next_at(self, now: float) -> float:
        """Return when the next job of a sweep, or the next sweep, is submitted; infinity: unknown."""
        if self._due:
            return now
        return self._coming[0].at if self._coming else inf

    def take(self, now: float) -> list[Arrival]:
        """Return the jobs to submit now."""
        while self._coming and self._coming[0].at <= now:
            played = self._coming.pop(0)
            live = _Live(played, SweepState(played.sweep, now, played.sweep.at_most))
            self._lives.append(live)
            self._step(live, now)
        found, self._due = self._due, []
        return found

    def started(self, job: int, now: float) -> None:
        """Note that a job has devices: with each there is room in the queue for one more."""
        live, place = self._members.get(job, (None, 0))
        if live is not None and live.doing.get(place) is Doing.WAITS:
            live.doing[place] = Doing.RUNS
            self._step(live, now)

    def ended(self, job: int, now: float) -> None:
        """Note that a job has ended: its member has reached a rung, or its end."""
        live, place = self._members.pop(job, (None, 0))
        if live is None:
            return
        live.legs[place] = legs = live.legs.get(place, 0) + 1
        rungs, sweep = live.played.rungs(place), live.played.sweep
        member = sweep.job_number(place)
        if legs == len(rungs):
            del live.doing[place]
            live.fold(Ended(member, 1, Outcome.SUCCEEDED, now))
        else:
            live.doing[place] = Doing.RUNS
            value = live.played.curves[place][rungs[legs - 1] - 1]
            live.fold(RungReached(member, sweep.number, legs - 1, value, now))
        self._step(live, now)

    def notes(self) -> list[str]:
        """Say what has become of each sweep, and how many epochs it has trained."""
        return [_note(live) for live in self._lives]

    def _step(self, live: _Live, now: float) -> None:
        """Do what follows, until nothing more does."""
        while (steps := next_steps(live.state, live.doing)) and self._do(live, steps, now):
            pass

    def _do(self, live: _Live, steps: NextSteps, now: float) -> bool:
        sweep = live.played.sweep
        for place, rung in steps.promote:
            live.fold(MemberPromoted(sweep.job_number(place), sweep.number, rung, now))
            self._submit(live, place, now)
        for place, _ in steps.pause:
            live.doing[place] = Doing.PAUSES
        for place, _ in steps.stop:
            live.fold(StopAsked(sweep.job_number(place), now, why="its sweep"))
            live.fold(Cancelled(sweep.job_number(place), now))
            del live.doing[place]
            reached = live.played.rungs(place)[live.legs[place] - 1]
            self.pruned[sweep.member_name(place)] = reached
        for place in steps.enter:
            live.fold(MemberSubmitted(sweep.job_number(place), sweep.number, now))
            self._submit(live, place, now)
        return bool(steps.promote or steps.pause or steps.stop or steps.enter)

    def _submit(self, live: _Live, place: int, now: float) -> None:
        live.doing[place] = Doing.WAITS
        self._members[self._next] = live, place
        leg = live.played.leg(place, self._next, live.legs.get(place, 0), now)
        self._due.append(leg)
        self.names.add(leg.job.name)
        self._next += 1


def _note(live: _Live) -> str:
    played, ends = live.played, list(live.state.over.values())
    epochs = sum(played.rungs(place)[legs - 1] for place, legs in live.legs.items())
    whole = sum(map(len, played.curves))
    return (
        f"sweep of {played.sweep.size}: {ends.count('succeeded')} trained to the end, "
        f"{ends.count(PRUNED)} stopped early; {epochs:,} of {whole:,} epochs"
    )
