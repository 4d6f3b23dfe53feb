"""What a launcher has seen of a training: steps, members, checkpoints, lost tasks."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.roster.acts import NO_ANSWER
from muster.wire.tasks.messages import Captured, Changed, Failed, Message, Saved, StepDone, Straggling

POINTS = 100_000
"""Losses kept at most, about 10 MB; beyond that every second one is dropped."""

RATE_WINDOW = 10.0
"""Seconds over which the current samples/s are measured: some steps of even a slow training."""


@dataclass(slots=True)
class History:
    """Built from messages; idempotent."""

    step: int = -1
    """The last step done; -1: none."""
    epoch: int = 0
    loss: float = float("nan")
    formation: int = 0
    members: tuple[str, ...] = ()
    samples: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    changes: list[Changed] = field(default_factory=list)
    """One per formation, with the longest pause of its previous members."""
    saved: list[Saved] = field(default_factory=list)
    stragglers: list[Straggling] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Tasks that ended unannounced, and how."""
    refusal: str = ""
    """Why no more workers are started."""
    shape: dict[str, Any] = field(default_factory=dict)
    trace: str = ""
    """Of the error that failed the job."""
    notes: list[str] = field(default_factory=list)
    """Protocol errors."""
    began: float | None = None
    """Clock at the first step report."""
    latest: float = 0.0
    """Clock at the last step report."""
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Formation and step of each task's last report."""
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, message: Message, now: float) -> None:
        """Take in a message; `now`: seconds of a monotonic clock."""
        if isinstance(message, StepDone):
            self._note_step(message, now)
        elif isinstance(message, Changed):
            self._note_change(message)
        elif isinstance(message, Saved):
            if message not in self.saved:
                self.saved.append(message)
        elif isinstance(message, Straggling):
            if message not in self.stragglers:
                self.stragglers.append(message)
        elif isinstance(message, Failed):
            self.trace = message.trace or self.trace
        elif isinstance(message, Captured) and not self.shape:
            self.shape = message.shape

    def note_lost(self, lost: Mapping[str, str]) -> None:
        """Take in lost tasks and how they ended; an exit status tells more than a missing answer."""
        for task, how in lost.items():
            if how != NO_ANSWER or task not in self.lost:
                self.lost[task] = how

    def rate(self, now: float) -> float:
        """Return the current samples/s."""
        while self._recent and self._recent[0][0] < now - RATE_WINDOW:
            self._recent.popleft()
        if self.began is None:
            return 0.0
        return sum(samples for _, samples in self._recent) / max(
            min(RATE_WINDOW, now - self.began), 1e-3
        )

    @property
    def mean_rate(self) -> float:
        """Samples/s from the first step report to the last."""
        if self.began is None or self.latest <= self.began:
            return 0.0
        return self.samples / (self.latest - self.began)

    def _note_step(self, done: StepDone, now: float) -> None:
        if (done.formation, done.step) <= self._last.get(done.task, (0, -1)):
            return
        self._last[done.task] = (done.formation, done.step)
        self.began = now if self.began is None else self.began
        self.latest = now
        self.samples += done.samples
        self._recent.append((now, done.samples))
        if done.step >= self.step:
            self.step, self.epoch, self.loss = done.step, done.epoch, done.loss
        self.losses[done.step] = done.loss
        if len(self.losses) > POINTS:
            self.losses = dict(list(self.losses.items())[::2])

    def _note_change(self, change: Changed) -> None:
        for place, known in enumerate(self.changes):
            if known.formation == change.formation:
                if _weight(change) > _weight(known):
                    self.changes[place] = change
                return
        self.changes.append(change)
        self.changes.sort(key=lambda one: one.formation)
        if change.formation > self.formation:
            self.formation, self.members = change.formation, change.members


def _weight(change: Changed) -> tuple[bool, float]:
    """Rank reports of one formation: a joiner's wait for its plan is not a pause."""
    return change.cause != "start", change.pause
