"""What a coordinator has seen of a training: steps, changes of members, checkpoints, lost tasks."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.roster.acts import NO_ANSWER
from muster.wire.messages import Captured, Changed, Failed, Message, Saved, StepDone, Straggling

POINTS = 100_000
"""Losses kept at most, about 10 MB; above it every second one goes, so that a plot keeps its shape."""

RATE_WINDOW = 10.0
"""Seconds over which the present samples/s are counted: some steps even of a slow training."""


@dataclass(slots=True)
class History:
    """Filled message by message; what comes twice counts once."""

    step: int = -1
    """The last step that is done; -1: none."""
    epoch: int = 0
    loss: float = float("nan")
    formation: int = 0
    members: tuple[str, ...] = ()
    samples: int = 0
    losses: dict[int, float] = field(default_factory=dict)
    changes: list[Changed] = field(default_factory=list)
    """One for each formation; its pause is the longest of those who were members before."""
    saved: list[Saved] = field(default_factory=list)
    stragglers: list[Straggling] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    """Tasks that went without having said so, and how."""
    shape: dict[str, Any] = field(default_factory=dict)
    trace: str = ""
    """Of the error that ended the job."""
    notes: list[str] = field(default_factory=list)
    """Oddities on the wire."""
    began: float | None = None
    """Clock at the first step that was reported."""
    latest: float = 0.0
    """Clock at the last one."""
    _last: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Formation and step of each task's last report."""
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, message: Message, now: float) -> None:
        """Take a message in; `now`: seconds of any clock that never goes back."""
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
            self.trace = self.trace or message.trace
        elif isinstance(message, Captured) and not self.shape:
            self.shape = message.shape

    def note_lost(self, lost: Mapping[str, str]) -> None:
        """Take in who is gone and how; the exit of a process says more than that nobody answered."""
        for task, how in lost.items():
            if how != NO_ANSWER or task not in self.lost:
                self.lost[task] = how

    def rate(self, now: float) -> float:
        """Samples/s of the last seconds."""
        while self._recent and self._recent[0][0] < now - RATE_WINDOW:
            self._recent.popleft()
        if self.began is None:
            return 0.0
        return sum(samples for _, samples in self._recent) / max(
            min(RATE_WINDOW, now - self.began), 1e-3
        )

    @property
    def mean_rate(self) -> float:
        """Samples/s from the first step's report to the last's."""
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
    """Which of two reports of one formation counts: a joiner's wait for its plan is nobody's pause."""
    return change.cause != "start", change.pause
