"""The demo run for real, and what its journal and notes tell of it: times, speeds and delays."""

import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np

from muster.daemon.learn.live import LiveState, state_of
from muster.daemon.learn.notes import PROGRESS, SHOWN, StepNote, shown_of
from muster.model.event import (
    Ended,
    PreemptBegun,
    Preempted,
    ResizeBegun,
    Resized,
    StartBegun,
    Started,
    Submitted,
)
from muster.model.job import Job, Role
from muster.model.placement import Placement
from muster.model.task import Fact, job_of
from muster.sim.executor import Warmup
from muster.store.store import open_store
from support.measured import TimedStep

DEMO = Path(__file__).resolve().parents[2] / "examples/demo"
PAGE = 500
NOTES = 100_000
LIMIT = 600.0
"""s for a demo: more than twice what it may take."""


@dataclass(frozen=True, slots=True)
class Look:
    """A job at a moment: steps done, and its workers from then on."""

    at: float
    step: int
    workers: int


@dataclass(slots=True)
class Story:
    """One job's life as it was. Times are s since the first submission."""

    job: Job
    submitted: float
    ended: float = 0.0
    steps: int = 0
    batch: int = 0
    looks: list[Look] = field(default_factory=list)
    """When its tasks changed, and at each measurement."""
    crews: list[tuple[float, int]] = field(default_factory=list)
    """When it had how many workers."""
    warmups: list[tuple[int, float]] = field(default_factory=list)
    """New tasks, and s until they trained."""
    releases: list[float] = field(default_factory=list)
    """s until tasks that had to go were gone, others going on."""
    stops: list[float] = field(default_factory=list)
    """s until all were."""
    mixed: list[tuple[float, float]] = field(default_factory=list)
    """From the order to let tasks go to their end: nobody knows when just the others went on."""
    placement: Placement | None = None
    _target: Placement | None = None
    _ordered: float = 0.0

    @property
    def kind(self) -> str:
        """What it trains."""
        return self.job.application or self.job.name

    def take(self, fact: Fact, at: float) -> None:
        """Something has happened to it."""
        if isinstance(fact, StartBegun | ResizeBegun):
            self._target, self._ordered = fact.placement, at
        elif isinstance(fact, PreemptBegun):
            self._target, self._ordered = None, at
        elif isinstance(fact, Started | Resized | Preempted):
            self._settle(at)
        elif isinstance(fact, Ended):
            self.ended = at
            self.crews.append((at, 0))

    def _settle(self, at: float) -> None:
        before = set(self.placement.slots) if self.placement else set()
        after = set(self._target.slots) if self._target else set()
        if after - before:
            self.warmups.append((len(after - before), at - self._ordered))
        else:
            (self.releases if after else self.stops).append(at - self._ordered)
        if before - after:
            self.mixed.append((self._ordered, at))
        self.placement = self._target
        self.crews.append((at, self._target.count(Role.WORKER) if self._target else 0))

    def paces(self) -> Iterable[tuple[int, int, float]]:
        """Workers, steps and s of every stretch between two looks in which nothing changed."""
        for first, then in pairwise(self.looks):
            clean = all(then.at <= begin or end <= first.at for begin, end in self.mixed)
            if first.workers and then.step > first.step and clean:
                yield first.workers, then.step - first.step, then.at - first.at


def play(folder: Path, arguments: Sequence[str]) -> None:
    """Run the demo; its folder stays. Raises if a job of it did not succeed."""
    command = [sys.executable, str(DEMO / "demo.py"), "--keep", str(folder), *arguments]
    subprocess.run(command, check=True, timeout=LIMIT)


def read_stories(folder: Path) -> dict[str, Story]:
    """What became of every job, by name, in the order of submission."""
    store = open_store(str(folder / "data" / "muster.db"))
    try:
        facts: list[Fact] = []
        seq = 0
        while page := store.changes(seq, limit=PAGE):
            facts += [entry.fact for entry in page]
            seq = page[-1].seq
        states = [(note.at, state_of(note)) for note in store.notes(PROGRESS, NOTES)]
    finally:
        store.close()
    stories: dict[int, Story] = {}
    begin = next(fact.at for fact in facts if isinstance(fact, Submitted))
    for fact in facts:
        if isinstance(fact, Submitted):
            stories[fact.job.number] = Story(fact.job, fact.at - begin)
        elif (number := job_of(fact)) is not None:
            stories[number].take(fact, fact.at - begin)
    for at, state in states:
        if state is not None:
            _look(stories[state.number], state, at - begin)
    return {story.job.name: story for story in stories.values()}


def _look(story: Story, state: LiveState, at: float) -> None:
    counts = state.track.counts
    story.steps, story.batch = int(counts["steps"]), int(counts["batch"])
    workers = sum(state.held[1]) if state.held is not None else 0
    story.looks.append(Look(at, int(counts["step"]), workers))


def read_waits(folder: Path) -> dict[tuple[str, int], float]:
    """The part of a step that is waiting for each other, by kind and workers, as it was first shown."""
    store = open_store(str(folder / "data" / "muster.db"))
    try:
        notes = [shown_of(note) for note in store.notes(SHOWN, NOTES)]
    finally:
        store.close()
    shown = (each for each in notes if isinstance(each, StepNote))
    return {(each.kin.application, sum(each.workers)): each.sync / each.step for each in shown}


def timed(
    stories: Iterable[Story], waits: dict[tuple[str, int], float]
) -> dict[str, tuple[TimedStep, ...]]:
    """s of a step by kind and number of workers: all the time over all the steps."""
    sums: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(lambda: [0.0, 0.0]))
    for story in stories:
        for workers, steps, seconds in story.paces():
            sums[story.kind][workers][0] += seconds
            sums[story.kind][workers][1] += steps
    return {
        kind: tuple(
            TimedStep(workers, seconds / steps, seconds / steps * waits.get((kind, workers), 0.0))
            for workers, (seconds, steps) in sorted(by_workers.items())
        )
        for kind, by_workers in sums.items()
    }


def warmup(stories: Iterable[Story]) -> Warmup:
    """The line through all starts and joins by the number of new tasks; one that falls is none."""
    points = [point for story in stories for point in story.warmups]
    tasks, seconds = (np.array(column, dtype=float) for column in zip(*points, strict=True))
    if len(set(tasks.tolist())) > 1:
        each, once = np.polyfit(tasks, seconds, 1)
        if each > 0 and once > 0:
            return Warmup(float(once), float(each))
    return Warmup(float(seconds.mean()))


def first_starts(stories: Iterable[Story]) -> dict[int, float]:
    """s of each job's first start: how many others were being started then is nobody's model."""
    return {story.job.number: story.warmups[0][1] for story in stories}


def usual(seconds: Iterable[Sequence[float]]) -> float:
    """The middle of what all jobs took; 0 where none took any."""
    found = [each for story in seconds for each in story]
    return median(found) if found else 0.0


def tail(stories: Iterable[Story], steps: dict[str, tuple[TimedStep, ...]]) -> float:
    """s from the last step to the end of a job, usually: its script's last lines, and processes' ends.

    When its last step was follows from the last look at it and the usual step of its kind.
    """
    found = []
    for story in stories:
        last = [look for look in story.looks if look.workers][-1]
        step = {each.workers: each.step for each in steps[story.kind]}.get(last.workers)
        if step is not None:
            found.append(story.ended - last.at - (story.steps - last.step) * step)
    return max(0.0, median(found)) if found else 0.0
