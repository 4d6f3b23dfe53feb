"""A job's progress, from its tasks' messages. A message may arrive twice; it counts once.

The members speak for the job, as named in their last change. A restarted job has other members (names
are never reused), which count from 1 again and resume from a checkpoint: late messages of the previous
ones are ignored.
"""

from collections import deque
from copy import copy
from dataclasses import dataclass, field
from math import isfinite

import msgspec

from muster.daemon.learn.free_batch import FreeBatch, shown
from muster.wire.tasks.messages import Captured, Changed, Saved, StepDone

RATE_WINDOW = 10
"""s over which samples/s are averaged: some steps even of a slow training."""

POINTS = 512
"""Most losses kept; beyond that every second one is dropped, so that a plot keeps its shape."""


MOST_SAMPLES = 2**62
"""Samples counted: whatever tasks report, the sum stays below the 64 bits that a store holds."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is."""

    step: int = 0
    """Steps done."""
    steps: int | None = None
    """Total steps, if the training knows."""
    epoch: int = 0
    loss: float | None = None
    rate: float = 0.0
    """Samples/s of the last `RATE_WINDOW`."""
    pause: float = 0.0
    """s that it stood still because its tasks changed, planned or after a failure."""
    resizes: int = 0
    """Planned changes of its tasks."""
    samples: int = 0
    """Samples it has trained on, repeated ones included."""
    saved: int = 0
    """Step of its latest checkpoint, 0 without one."""
    slowed: float = 0.0
    """By how much its steps are longer beside its worst neighbour (0.1: a tenth)."""
    beside: int = 0
    """That neighbour's number, 0 if none is known to slow it."""
    batch: int | None = None
    """Samples of a step, if they may change."""
    batch_limits: str | None = None
    """Between which they may: "128..2048"."""
    noise: float | None = None
    """The gradient's noise scale in samples, if known."""
    efficiency: float | None = None
    """How much a sample teaches at this batch, 1 at the user's own."""


@dataclass(slots=True)
class Rate:
    """Samples/s, counted by whole seconds."""

    _seconds: deque[tuple[int, int]] = field(default_factory=deque)
    _began: float = 0.0

    def add(self, samples: int, now: float) -> None:
        """Add samples that were just reported."""
        second, before = int(now), 0
        if not self._seconds:
            self._began = now
        elif self._seconds[-1][0] >= second:  # a clock that jumps back undoes nothing
            second, before = self._seconds.pop()
        self._seconds.append((second, before + samples))
        self._forget(now)

    def per_second(self, now: float) -> float:
        """Return the rate over the last `RATE_WINDOW`, 0 if nothing was reported."""
        self._forget(now)
        span = min(float(RATE_WINDOW), max(1.0, now - self._began))
        return sum(samples for _, samples in self._seconds) / span

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] < now - RATE_WINDOW:
            self._seconds.popleft()


@dataclass(slots=True)
class Losses:
    """Loss by step, thinned as it grows."""

    points: dict[int, float] = field(default_factory=dict)
    stride: int = 1
    last: tuple[int, float] | None = None

    def add(self, step: int, loss: float) -> None:
        """Add the loss of a step; a repeated step replaces it."""
        self.last = step, loss
        if step % self.stride:
            return
        self.points[step] = loss
        while len(self.points) > POINTS:
            self.stride *= 2
            self.points = {at: each for at, each in self.points.items() if at % self.stride == 0}

    def thinned(self, most: int) -> tuple[tuple[int, float], ...]:
        """Return at most `most` losses, evenly over the steps, the last included."""
        if self.last is None or most < 1:
            return ()
        known = sorted(at for at in self.points if at < self.last[0])
        every = -(-len(known) // max(1, most - 1))
        kept = known[::every][: most - 1] if every else []
        return (*((at, self.points[at]) for at in kept), self.last)


class TrackState(msgspec.Struct, frozen=True):
    """A track in the store."""

    counts: dict[str, int | bool]
    loss: float | None
    shape: str
    members: tuple[str, ...]
    tasks: dict[str, tuple[int, int]]
    pauses: dict[int, tuple[bool, float]]
    earlier: tuple[int, float]
    free: FreeBatch = msgspec.field(default_factory=FreeBatch)


@dataclass(slots=True)
class Track:
    """What one job's messages add up to."""

    step: int = 0
    epoch: int = 0
    loss: float | None = None
    samples: int = 0
    steps: int = 0
    """Total; 0 if unknown."""
    batch: int = 0
    """Samples of a step over all workers; 0 if unknown."""
    shape: str = ""
    """Equal for trainings of one model; empty if unknown."""
    saved: int = 0
    reported: bool = False
    """Whether it has ever reported a step."""
    formation: int = 0
    members: tuple[str, ...] = ()
    """Of that formation; empty: they have not said."""
    asynchronous: bool = False
    """Workers do not wait for each other: each report is a step of its own."""
    free: FreeBatch = field(default_factory=FreeBatch)
    rate: Rate = field(default_factory=Rate)
    losses: Losses = field(default_factory=Losses)
    _at: tuple[int, int] = (0, 0)
    """Formation and step of the foremost report of these members."""
    _tasks: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Formation and step of each task's last report."""
    _past: set[str] = field(default_factory=set)
    """Members before the last restart."""
    _pauses: dict[int, tuple[bool, float]] = field(default_factory=dict)
    """Of each formation since then: whether it was planned, and s of pause."""
    _earlier: tuple[int, float] = (0, 0.0)
    """Resizes and pauses before the last restart."""

    @property
    def workers(self) -> int:
        """How many workers train now, by their own messages."""
        return sum(member.startswith("worker") for member in self.members)

    def note_step(self, done: StepDone, now: float) -> bool:
        """Take in a report; False for one that says nothing about the job's current state."""
        at = done.formation, done.step
        if done.task in self._past or at <= self._tasks.get(done.task, (0, 0)):
            return False
        self._tasks[done.task] = at
        self.reported = True
        self.samples = min(MOST_SAMPLES, self.samples + done.samples)
        self.rate.add(done.samples, now)
        if done.formation < self.formation:
            return False
        if at >= self._at:
            self._at = at
            self.step, self.epoch = done.step, done.epoch
            self.free.note_step(done)
            self.loss = done.loss if isfinite(done.loss) else None
            self.losses.add(done.step, done.loss)
        return True

    def note_change(self, change: Changed) -> None:
        """Take in a change of members."""
        if change.task in self._past:
            return
        restarted = bool(self.members) and not set(self.members) & set(change.members)
        if restarted and change.formation <= self.formation:
            self._start_over()
        if change.formation > self.formation:
            self.formation, self.members = change.formation, change.members
            self.asynchronous = change.sync == "asynchronous"
        planned, pause = self._pauses.get(change.formation, (False, 0.0))
        # A joiner's wait for its plan pauses nobody.
        own = change.pause if change.cause != "start" and isfinite(change.pause) else 0.0
        self._pauses[change.formation] = planned or change.cause == "plan", max(pause, own)

    def _start_over(self) -> None:
        """Start over with other members: the job was stopped and restarted."""
        self._earlier = self.resizes, self.pause
        self._pauses = {}
        self._past |= self._tasks.keys() | set(self.members)
        self._tasks = {}
        self.formation, self.members, self._at = 0, (), (0, 0)

    def note_shape(self, captured: Captured, shape: str) -> bool:
        """Take in length, batch and model; return whether anything is new."""
        before = self.steps, self.batch, self.shape, self.free.largest
        self.free.note_shape(captured)
        self.steps = captured.steps or (0 if captured.until else self.steps)
        self.batch = captured.batch or self.batch
        self.shape = shape
        return before != (self.steps, self.batch, self.shape, self.free.largest)

    @property
    def done(self) -> float:
        """Steps done; with a free batch, of the user's own."""
        return self.free.done if self.free.largest else float(self.step)

    def note_saved(self, saved: Saved) -> None:
        """Take in a checkpoint."""
        self.saved = saved.step

    @property
    def resizes(self) -> int:
        """Planned changes of tasks so far."""
        return self._earlier[0] + sum(planned for planned, _ in self._pauses.values())

    @property
    def pause(self) -> float:
        """s that changes of tasks have cost so far."""
        return self._earlier[1] + sum(pause for _, pause in self._pauses.values())

    def planned_pause(self, formation: int) -> float | None:
        """Return the s that a planned change of tasks has cost; None: it was none."""
        planned, pause = self._pauses.get(formation, (False, 0.0))
        return pause if planned else None

    def progress(self, now: float) -> Progress:
        """Return the progress as users see it."""
        return Progress(
            step=self.step,
            steps=None if self.free.largest else self.steps or None,  # steps differ in size
            epoch=self.epoch,
            loss=self.loss,
            rate=self.rate.per_second(now),
            pause=self.pause,
            resizes=self.resizes,
            samples=self.samples,
            saved=self.saved,
            **shown(self.free),
        )

    def state(self) -> TrackState:
        """Return what survives a restart; the curve of losses does not."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        own = (self.members, self._tasks, self._pauses, self._earlier)
        return TrackState(counts, self.loss, self.shape, *own, free=self.free)

    @staticmethod
    def restored(state: TrackState) -> "Track":
        """Return the track as it was stored."""
        track = Track(loss=state.loss, shape=state.shape, members=state.members, free=copy(state.free))
        # Stores of 0.1.0 call the formation a generation.
        counts = {"formation": state.counts.get("generation", 0)} | state.counts
        for name in _COUNTS:
            setattr(track, name, counts[name])
        track._tasks, track._pauses = dict(state.tasks), dict(state.pauses)
        track._earlier = state.earlier
        track._at = max(track._tasks.values(), default=(0, 0))
        return track


_COUNTS = (
    "step",
    "epoch",
    "samples",
    "steps",
    "batch",
    "saved",
    "reported",
    "formation",
    "asynchronous",
)
"""Plain fields of a track that survive a restart."""
